//! Two engines for tests, whose threads never spin, and a connection between them.

use std::sync::Arc;
use std::time::Duration;

use weft_base::{Port as Number, Service};

use crate::gather::Gather;
use crate::slot::Slot;
use crate::waiters::Interest;
use crate::{Config, Engine, Settings, Target};

/// How long what must come is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The end that asks, and the one that answers.
pub(crate) struct Conversation {
    pub(crate) here: Engine,
    pub(crate) asks: Arc<Slot>,
    pub(crate) there: Engine,
    pub(crate) answers: Arc<Slot>,
}

impl Conversation {
    pub(crate) fn open() -> Self {
        Self::open_with_buffers(Settings::default().socket_buffer_bytes)
    }

    pub(crate) fn open_of(service: Service) -> Self {
        let [here, there] = engines(Settings::default().socket_buffer_bytes);
        Self::between_of(here, there, service)
    }

    /// By sockets for which the kernel is asked to keep so many bytes.
    pub(crate) fn open_with_buffers(socket_buffer_bytes: usize) -> Self {
        let [here, there] = engines(socket_buffer_bytes);
        Self::between(here, there)
    }

    /// Established at both ends.
    pub(crate) fn between(here: Engine, there: Engine) -> Self {
        Self::between_of(here, there, Service::Datagram)
    }

    fn between_of(here: Engine, there: Engine, service: Service) -> Self {
        let config = |engine: &Engine| Config::new(service, engine.mss());
        let listening = there.listen(Some(Number::ECHO), config(&there), Gather::WhenBusy).unwrap();
        let target = Target { node: None, at: Some(there.underlay()), port: Number::ECHO };
        let asks = here.connect(target, None, config(&here), Gather::WhenBusy).unwrap();
        assert!(here.wait(&asks, Interest::Connected, Some(here.now() + LIMIT)));
        assert!(there.wait_accept(&listening, Some(there.now() + LIMIT)));
        let answers = there.accept(&listening).unwrap();
        Self { here, asks, there, answers }
    }
}

fn engines(socket_buffer_bytes: usize) -> [Engine; 2] {
    let bind = "127.0.0.1:0".parse().unwrap();
    let settings = || Settings { bind, spin: Duration::ZERO, socket_buffer_bytes, ..Settings::default() };
    [Engine::open(settings()).unwrap(), Engine::open(settings()).unwrap()]
}
