//! des
