//! Users at both ends: they connect and write.

use weft_base::{Address, FlowKey, Port, Seq, Service};
use weft_proto::{Config, Connection, Listener, Secret};

use super::super::end::End;
use super::{FIRST_PORT, Happening, World};
use crate::violation::Violation;

impl World {
    pub(super) fn secret(&mut self) -> Secret {
        Secret { iss: Seq::new(self.random.next_u64()), entropy: self.random.next_u64() }
    }

    pub(super) fn open(&mut self, session: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let plan = &self.plan.sessions[session];
        let place = |side: usize, index: usize| if side == 0 { index } else { self.plan.ends[0] + index };
        let (near, far) = (place(plan.side, plan.nodes[0]), place(1 - plan.side, plan.nodes[1]));
        let port = |first: u16| {
            let number = first.saturating_add(u16::try_from(session).unwrap_or(u16::MAX));
            Port::new(number).unwrap_or(Port::ECHO)
        };
        let flow = FlowKey {
            local: Address { node: self.nodes[near].id, port: port(50_000) },
            remote: Address { node: self.nodes[far].id, port: port(FIRST_PORT) },
        };
        let congestion = plan.controller;
        let period = plan.period;
        let config = Config { congestion, probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
        let secret = self.secret();
        self.listeners[far].push(Listener::new(now, &config, [7; 32]));
        let mut connection = Connection::connect(now, flow, &config, secret);
        connection.set_paths(now, self.nodes[near].paths()?);
        let end = self.add(near, session, 0, connection);
        self.queue.schedule(now + period, Happening::Write { session });
        self.drive(end)
    }

    pub(super) fn add(&mut self, node: usize, session: usize, role: u64, connection: Connection) -> usize {
        let key = self.plan.seed << 8 | (session as u64) << 1;
        self.by_flow.insert((node, connection.flow()), self.ends.len());
        self.ends.push(End::new(self.queue.now(), node, session, role, key, connection));
        self.ends.len() - 1
    }

    /// Both users of a session write, and will again.
    pub(super) fn write(&mut self, session: usize) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        let plan = &self.plan.sessions[session];
        let (writes, period) = (plan.writes, plan.period);
        for end in 0..self.ends.len() {
            let at = &mut self.ends[end];
            let bytes = writes[usize::from(!at.connection.is_client())];
            if at.session == session && bytes > 0 {
                at.write(bytes)?;
                self.drive(end)?;
            }
        }
        self.queue.schedule(self.queue.now() + period, Happening::Write { session });
        Ok(())
    }
}
