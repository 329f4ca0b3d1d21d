//! The papers' controller: none. A constant window, chosen by whoever declares the network dedicated.

use weft_base::Instant;

use super::{Ack, Controller, Loss, WINDOW_MAX};

/// [CDP-CC-2] A window that reacts to nothing, for networks that the configuration declares dedicated.
#[derive(Clone, Debug)]
pub struct Fixed {
    window: u32,
}

impl Fixed {
    /// A constant window of `window` packets.
    #[must_use]
    pub fn new(window: u32) -> Self {
        Self { window: window.clamp(1, WINDOW_MAX) }
    }
}

impl Controller for Fixed {
    fn handle_ack(&mut self, _ack: &Ack) {}

    fn handle_loss(&mut self, _loss: &Loss) {}

    fn handle_ecn(&mut self, _now: Instant, _sent_at: Instant) {}

    fn window(&self) -> u32 {
        self.window
    }
}
