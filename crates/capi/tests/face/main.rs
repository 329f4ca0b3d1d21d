//! The C face from outside: the header against the library, and C programs linked with it.

mod agreement;
mod cc;
mod programs;
