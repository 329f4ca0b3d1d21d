//! The work of one packet without a kernel, to be counted in instructions: `packets SCENARIO COUNT`.
//!
//! Two machines of the protocol in one thread, in virtual time, with a wire that is a copy: everything that happens to a
//! packet from the user's send to the other user's receive, save the engine's locks and the system calls. Run under
//! callgrind with two counts, the difference is what so many packets cost; `cargo xtask instructions` does that and holds
//! it against `bench/instructions.toml`.

use std::error::Error;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use bytes::BytesMut;
use clap::{Parser, ValueEnum};
use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_proto::{Config, Connection, RecvError, Secret, State};
use weft_wire::{Encapsulation, Packet, Train};

/// Passes packets from one machine of the protocol to another, and prints how many.
#[derive(Parser)]
struct Arguments {
    scenario: Scenario,
    /// How often to repeat the scenario.
    count: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scenario {
    /// 44 full packets of a stream one way, and an acknowledgement back.
    Bulk,
    /// The same in 7 packets of a stream as jumbo frames carry them.
    Jumbo,
    /// One message of 64 bytes there and back.
    Ping,
    /// 880 messages of 64 bytes in 40 packets one way, and an acknowledgement back.
    Messages,
}

/// Data segment of a full packet at an MTU of 1500 bytes, over UDP and IPv4, and of one at an MTU of 9000.
const MSS: u16 = 1_444;
const JUMBO_MSS: u16 = 8_944;
const FULL_PACKETS: usize = 44;
const JUMBO_PACKETS: usize = 7;
const MESSAGES: usize = 880;
/// Of packets that leave as one, as the engine has it.
const BATCH_BYTES: usize = 65_000;
/// From one repetition to the next.
const STEP: Duration = Duration::from_micros(50);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.scenario, arguments.count) {
        Ok(packets) => {
            println!("{packets}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("packets: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(scenario: Scenario, count: u64) -> Result<u64, Box<dyn Error>> {
    let (service, mss, packets) = match scenario {
        Scenario::Bulk => (Service::Stream, MSS, FULL_PACKETS),
        Scenario::Jumbo => (Service::Stream, JUMBO_MSS, JUMBO_PACKETS),
        Scenario::Ping | Scenario::Messages => (Service::Datagram, MSS, 1),
    };
    let mut wire = Wire::open(service, mss)?;
    let piece = vec![0xA5; packets * usize::from(mss)];
    for _ in 0..count {
        match scenario {
            Scenario::Bulk | Scenario::Jumbo => {
                piece.chunks(usize::from(mss)).try_for_each(|piece| wire.send(Side::Left, piece))?;
            }
            Scenario::Ping => wire.send(Side::Left, &piece[..64])?,
            Scenario::Messages => (0..MESSAGES).try_for_each(|_| wire.send(Side::Left, &piece[..64]))?,
        }
        wire.carry(Side::Left);
        wire.take(Side::Right)?;
        if matches!(scenario, Scenario::Ping) {
            wire.send(Side::Right, &piece[..64])?;
        }
        wire.carry(Side::Right);
        wire.take(Side::Left)?;
        wire.now += STEP;
    }
    Ok(wire.packets)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

struct Wire {
    now: Instant,
    left: Connection,
    right: Connection,
    heads: Vec<u8>,
    /// Packets that the kernel would join to one buffer, and the size of each.
    sent: Vec<(Range<usize>, usize)>,
    packets: u64,
    /// Bytes of the longest burst so far.
    longest: usize,
}

impl Wire {
    /// Both ends connect at once, as no listener is to be measured.
    fn open(service: Service, mss: u16) -> Result<Self, Box<dyn Error>> {
        let end = |node, port| Some(Address { node: NodeId::new(node)?, port: Port::new(port)? });
        let ends = end(1, 50_000).zip(end(2, 50_001)).ok_or("no address")?;
        let flow = FlowKey { local: ends.0, remote: ends.1 };
        let config = Config { pacing: false, ..Config::new(service, mss) };
        let now = Instant::from_nanos(1_000_000_000);
        let connect =
            |flow, iss| Connection::connect(now, flow, &config, Secret { iss: Seq::new(iss), entropy: iss });
        let (left, right) = (connect(flow, 1 << 40), connect(flow.reversed(), 1 << 50));
        let mut wire = Self { now, left, right, heads: Vec::new(), sent: Vec::new(), packets: 0, longest: 0 };
        for _ in 0..200 {
            wire.carry(Side::Left);
            wire.carry(Side::Right);
            wire.now += STEP;
        }
        let states = (wire.left.state(), wire.right.state());
        if states == (State::Established, State::Established) {
            Ok(wire)
        } else {
            Err(format!("the connection did not open: {states:?}").into())
        }
    }

    fn end(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }

    fn send(&mut self, side: Side, data: &[u8]) -> Result<(), Box<dyn Error>> {
        let taken = self.end(side).send(data).map_err(|error| format!("{error:?}"))?;
        if taken == data.len() { Ok(()) } else { Err(format!("only {taken} bytes were taken").into()) }
    }

    /// Everything that `from` has to send arrives at the other end, as from one joined buffer.
    fn carry(&mut self, from: Side) {
        let now = self.now;
        self.heads.clear();
        let (sender, receiver) = match from {
            Side::Left => (&mut self.left, &mut self.right),
            Side::Right => (&mut self.right, &mut self.left),
        };
        while sender.poll_timeout().is_some_and(|due| due <= now) {
            sender.handle_timeout(now);
        }
        // The one copy is the wire's.
        let mut joined = BytesMut::with_capacity(self.longest);
        while let Some(transmit) = sender.poll_transmit_in_place(now, &mut self.heads, BATCH_BYTES) {
            let frames = sender.frame(&transmit);
            let packets = frames.as_deref().unwrap_or_else(|| &self.heads[transmit.head.clone()]);
            let start = joined.len();
            // In pieces, as callgrind counts each byte of a long copy as an instruction.
            packets.chunks(1_024).for_each(|piece| joined.extend_from_slice(piece));
            self.sent.push((start..joined.len(), packets.len() / transmit.packets as usize));
            self.packets += u64::from(transmit.packets);
        }
        self.longest = self.longest.max(joined.len());
        let joined = joined.freeze();
        for (range, size) in self.sent.drain(..) {
            let mut bytes = joined.slice(range);
            // What the other end makes of an offer that it does not take is up to it.
            while bytes.len() > size {
                if let Ok(mut train) = Train::split_checked(&mut bytes, size, Encapsulation::Udp) {
                    receiver.take_train_by(now, &mut train, 0, &mut []);
                }
            }
            if !bytes.is_empty()
                && let Ok(mut packet) = Packet::new_checked(bytes, Encapsulation::Udp)
            {
                receiver.take_packet_by(now, &mut packet, 0);
            }
        }
        while receiver.poll_event().is_some() {}
    }

    /// The user of `side` takes all that came.
    fn take(&mut self, side: Side) -> Result<(), Box<dyn Error>> {
        loop {
            match self.end(side).recv_message() {
                Ok(Some(_)) => {}
                Ok(None) => return Err("the stream ended".into()),
                Err(RecvError::WouldBlock) => return Ok(()),
                Err(error) => return Err(format!("{error:?}").into()),
            }
        }
    }
}
