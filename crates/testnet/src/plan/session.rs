//! Draws the connections of a plan: configurations, what is written, how it is read, how it ends.

use std::time::Duration;

use weft_base::Service;
use weft_des::Random;
use weft_proto::Config;
use weft_proto::congestion;

use super::{ServicePlan, SessionPlan, Target};
use crate::script::{Ending, Reading, Script, Writing};

/// Ports of listeners begin here.
const FIRST_SERVICE_PORT: u16 = 1_025;
/// Ports of clients begin here.
const FIRST_CLIENT_PORT: u16 = 49_152;
/// Most packets' worth of data in one direction of one session.
const PACKETS_MAX: u64 = 600;
/// Messages of either end in a conversation at most, and their length in bytes: each takes a round trip.
const SAYINGS_MAX: usize = 200;
const SAYING_BYTES_MAX: usize = 400;

/// A network all of whose paths are at least so fast counts as dedicated.
const DEDICATED_BYTES_PER_S: u64 = 100_000_000;

/// What all sessions of a plan share.
pub(super) struct Drawing {
    pub(super) random: Random,
    pub(super) nodes: usize,
    pub(super) heals_at: Duration,
    pub(super) is_sealed: bool,
    /// Rate of the slowest path, in bytes per second.
    pub(super) slowest: u64,
}

impl Drawing {
    pub(super) fn sessions(&mut self) -> (Vec<ServicePlan>, Vec<SessionPlan>) {
        let services: Vec<ServicePlan> = (0..self.random.range(1..3)).map(|i| self.service(i)).collect();
        let mut sessions: Vec<SessionPlan> = Vec::new();
        for index in 0..self.random.range(1..6) {
            let port = FIRST_CLIENT_PORT + u16::try_from(index).unwrap_or(0);
            let session = self.session(port, &services);
            sessions.push(session);
        }
        if self.random.chance(0.2) {
            let again = self.reconnect(&sessions[0]);
            sessions.extend(again);
        }
        (services, sessions)
    }

    fn service(&mut self, index: u64) -> ServicePlan {
        let port = FIRST_SERVICE_PORT + u16::try_from(index).unwrap_or(0);
        let service = self.random.pick(&[Service::Datagram, Service::Stream]);
        let mut config = self.config(service);
        config.embryos_max = self.random.pick(&[0, 1, 256, 256]); // 0 forces cookies
        config.accept_limit = self.random.pick(&[1, 4, 128]);
        ServicePlan { node: self.random.index(self.nodes), port, config }
    }

    fn session(&mut self, client_port: u16, services: &[ServicePlan]) -> SessionPlan {
        let opens_at = self.random.duration(Duration::ZERO..self.heals_at.mul_f64(0.5));
        if self.random.chance(0.12) {
            return self.crossing(client_port, opens_at);
        }
        let target = self.random.index(services.len());
        let service = &services[target];
        let client = (service.node + 1 + self.random.index(self.nodes - 1)) % self.nodes;
        let mut config = self.config(service.config.service);
        if self.random.chance(0.02) {
            config.service = other(config.service); // a refused open
        }
        let (client_script, server_script) = self.scripts(&config, &service.config);
        SessionPlan {
            client,
            client_port,
            target: Target::Service(target),
            opens_at,
            config,
            client_script,
            server_script,
        }
    }

    /// Both ends connect to each other at nearly the same time.
    fn crossing(&mut self, client_port: u16, opens_at: Duration) -> SessionPlan {
        let client = self.random.index(self.nodes);
        let node = (client + 1 + self.random.index(self.nodes - 1)) % self.nodes;
        let service = self.random.pick(&[Service::Datagram, Service::Stream]);
        let (config, other) = (self.config(service), self.config(service));
        let (client_script, server_script) = self.scripts(&config, &other);
        let later = self.random.duration(Duration::ZERO..Duration::from_millis(200));
        let later = later.mul_f64(self.random.pick(&[0.0, 0.001, 0.1, 1.0]));
        let target = Target::Peer { node, port: client_port, later, config: Box::new(other) };
        SessionPlan { client, client_port, target, opens_at, config, client_script, server_script }
    }

    /// The first session once more between the same ports, when the first one may be over or not.
    fn reconnect(&mut self, first: &SessionPlan) -> Option<SessionPlan> {
        matches!(first.target, Target::Service(_)).then(|| {
            let after = self.random.duration(Duration::from_millis(10)..self.heals_at);
            SessionPlan { opens_at: first.opens_at + after, ..first.clone() }
        })
    }

    fn config(&mut self, service: Service) -> Config {
        let slowest = self.slowest;
        let random = &mut self.random;
        let mut config = Config::new(service, random.pick(&[512, 1_000, 1_444, 1_472, 8_944]));
        config.integrity = self.is_sealed || random.chance(0.3);
        config.receive_slots = random.pick(&[1, 2, 3, 4, 8, 16, 64, 256, 1_024, 1_024, 100_000]);
        config.send_bytes = random.pick(&[2_000, 20_000, 200_000, 4 << 20]);
        config.send_packets = random.pick(&[1, 2, 16, 1_024]);
        config.coalesce = random.chance(0.5);
        config.sack = random.chance(0.8);
        config.confirm = random.chance(0.3);
        config.pacing = random.chance(0.7);
        config.probe_mtu = random.chance(0.7);
        config.congestion = random.pick(&congestion::Kind::ALL);
        if config.congestion == congestion::Kind::Fixed && slowest < DEDICATED_BYTES_PER_S {
            // [CDP-CC-2] a fixed window only where the network is declared dedicated
            config.congestion = congestion::Kind::default();
        }
        config.rto_init = Duration::from_millis(random.pick(&[100, 250, 1_000]));
        config.rto_max = Duration::from_secs(random.pick(&[1, 4]));
        config.ack_delay = Duration::from_micros(random.pick(&[0, 200, 1_000]));
        if service == Service::Datagram {
            let largest = random.pick(&[0, 2_000, 20_000, 200_000, 1 << 20]);
            config.message_bytes = (largest > 0).then_some(largest);
            // [CDP-DG-7] a sender must be able to hold one message of the greatest size
            config.send_bytes = config.send_bytes.max(usize::try_from(largest).unwrap_or(0) + 2_000);
        }
        config
    }

    fn scripts(&mut self, client: &Config, server: &Config) -> (Script, Script) {
        let (mut one, mut two) = (self.script(client, server), self.script(server, client));
        match self.random.below(10) {
            0..4 => {
                let (from, to) =
                    if self.random.chance(0.8) { (&mut one, &mut two) } else { (&mut two, &mut one) };
                (from.ending, to.ending) = (Ending::WhenWritten, Ending::AfterPeer);
                to.writes.clear();
            }
            4..7 => {
                one.ending = Ending::WhenDone;
                two.ending = self.random.pick(&[Ending::WhenDone, Ending::AfterPeer]);
                if self.random.chance(0.3) {
                    two.writing = Writing::Last;
                } else if self.random.chance(0.3) {
                    self.converse(client, server, &mut one, &mut two);
                }
                if self.random.chance(0.5) {
                    std::mem::swap(&mut one.ending, &mut two.ending);
                }
            }
            7..9 => {
                one.ending = self.hasty(false);
                two.ending = self.random.pick(&[Ending::AfterPeer, Ending::WhenWritten, one.ending]);
                if self.random.chance(0.5) {
                    std::mem::swap(&mut one.ending, &mut two.ending);
                }
            }
            _ => {
                one.ending = self.hasty(true);
                two.ending = self.random.pick(&[Ending::AfterPeer, one.ending]);
                if self.random.chance(0.5) {
                    std::mem::swap(&mut one.ending, &mut two.ending);
                }
            }
        }
        (one, two)
    }

    /// Makes of two scripts one conversation in small messages, in which one end has to say no more than the other.
    fn converse(&mut self, client: &Config, server: &Config, one: &mut Script, two: &mut Script) {
        if (client.service, server.service) != (Service::Datagram, Service::Datagram) {
            return;
        }
        let count = one.writes.len().min(two.writes.len()).min(SAYINGS_MAX);
        for script in [&mut *one, &mut *two] {
            script.writes.truncate(count);
            script.writes.iter_mut().for_each(|len| *len = (*len).min(SAYING_BYTES_MAX));
        }
        let (first, second) = if self.random.chance(0.5) { (one, two) } else { (two, one) };
        first.writing = Writing::InTurns { ahead: 1 };
        second.writing = Writing::InTurns { ahead: 0 };
    }

    fn hasty(&mut self, aborts: bool) -> Ending {
        let longest = self.heals_at.mul_f64(self.random.pick(&[0.001, 0.05, 0.5]));
        let after = self.random.duration(Duration::ZERO..longest);
        if aborts { Ending::AbortAfter(after) } else { Ending::CloseAfter(after) }
    }

    fn script(&mut self, own: &Config, peer: &Config) -> Script {
        let writes = self.writes(own, peer);
        let random = &mut self.random;
        let reading = Reading {
            buffer_bytes: random.pick(&[0, 0, 100, 2_000, 65_536]),
            burst: random.pick(&[1, 10, 100]),
            pause: Duration::from_micros(random.pick(&[0, 0, 0, 100, 10_000, 300_000])),
        };
        let write_pause = Duration::from_micros(random.pick(&[0, 0, 0, 50, 5_000]));
        Script { writes, write_pause, writing: Writing::Freely, reading, ending: Ending::AfterPeer }
    }

    /// Lengths of the writes: of one kind each time, or of all kinds, up to a number of packets the paths carry in
    /// a few seconds.
    fn writes(&mut self, own: &Config, peer: &Config) -> Vec<usize> {
        let segment = u64::from(own.link_mss.min(peer.link_mss).min(1_472));
        let bytes = (self.slowest * 3).min(PACKETS_MAX * segment);
        let budget = bytes * self.random.pick(&[1, 10, 100, 100]) / 100;
        let longest = longest_write(own, peer);
        let style = self.random.below(5);
        let mut writes = Vec::new();
        let mut left = i64::try_from(budget).unwrap_or(0);
        while left > 0 && writes.len() < 2 * usize::try_from(PACKETS_MAX).unwrap_or(0) {
            let len = match if style == 4 { self.random.below(4) } else { style } {
                0 => self.random.range(0..65),
                1 => self.random.range(0..longest.min(segment) + 1),
                2 => longest.min(segment),
                _ => self.random.range(0..longest + 1),
            };
            // An empty write to a stream is no write.
            let len = if own.service == Service::Stream { len.max(1) } else { len };
            left -= i64::try_from(len).unwrap_or(0).max(8);
            writes.push(usize::try_from(len).unwrap_or(0));
        }
        writes
    }
}

/// The longest message that this end may send to that peer; for a stream the longest write.
fn longest_write(own: &Config, peer: &Config) -> u64 {
    let segment = u64::from(own.link_mss.min(peer.link_mss).min(512)); // until a larger size is proved
    match own.service {
        Service::Stream => 100_000,
        Service::Datagram => match peer.message_bytes {
            // [CDP-DG-3] a MESSAGE no larger than the MSS counts as absent
            Some(largest) if largest > u32::from(peer.link_mss) => u64::from(largest),
            _ => segment,
        },
    }
}

fn other(service: Service) -> Service {
    match service {
        Service::Datagram => Service::Stream,
        Service::Stream => Service::Datagram,
    }
}
