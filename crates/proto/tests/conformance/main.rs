//! The specification against the machine: a peer made of bare packets talks to one real connection.
//!
//! The peer follows a script and knows nothing that is not on the wire, so each test can be read beside the
//! sentence it cites.

mod critical;
mod data;
mod ending;
mod messages;
mod mtu;
mod opening;
mod peer;
mod repair;
mod unreachable;
mod window;
