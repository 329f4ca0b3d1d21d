//! Messages of all sizes go to and fro and are received in every way there is, over real sockets by which packets come together.

use std::time::Duration;

use weft_socket::{Node, Options, RecvError, Socket};

/// Questions, each of which has an answer.
const ROUNDS: u64 = 1_500;

/// Numbers that look random and are the same in each run (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides).expect("few sides")
    }
}

/// The message with this number, of one packet, of several that come together, or of more than come together.
fn message(number: u64) -> Vec<u8> {
    let mut dice = Dice(number + 1_000);
    let (least, more) =
        [(1, 64), (1_400, 100), (1_445, 6_000), (8_000, 30_000), (40_000, 40_000), (1, 250_000)]
            [dice.roll(6)];
    let (first, len) = (dice.roll(251), least + dice.roll(more));
    (0..len).map(|at| u8::try_from((first + at * 31 + at / 977) % 251).expect("a byte")).collect()
}

/// Receives it in one of six ways, some of which may have to be tried again.
fn receive(socket: &Socket, expected: &[u8], dice: &mut Dice, buffer: &mut [u8], vector: &mut Vec<u8>) {
    let len = expected.len();
    loop {
        // so short a wait may end within a message, of which nothing is lost then
        let limit = if dice.roll(4) == 0 { Duration::from_micros(50) } else { Duration::from_secs(20) };
        socket.set_recv_timeout(Some(limit));
        let way = dice.roll(6);
        let result = match way {
            0 => {
                vector.resize(dice.roll(100_000), 7);
                socket.recv_into(vector).map(|got| assert!(got == len && vector == expected))
            }
            1 => socket.recv_message().map(|got| assert!(got.to_vec() == expected)),
            2 => socket.try_recv(buffer).map(|got| assert!(buffer[..got] == *expected)),
            _ => {
                let room = [len, buffer.len(), len.div_ceil(2)][way - 3];
                socket.recv_whole(&mut buffer[..room]).map(|got| {
                    assert_eq!((got.len, got.truncated), (len.min(room), len.saturating_sub(room)));
                    assert!(buffer[..got.len] == expected[..got.len]);
                })
            }
        };
        match result {
            Ok(()) => return,
            Err(RecvError::WouldBlock) => {}
            Err(RecvError::TimedOut(after)) if after < Duration::from_secs(1) => {}
            Err(error) => panic!("{len} bytes in way {way}: {error}"),
        }
    }
}

#[test]
fn messages_of_all_sizes_arrive_whole_however_they_are_received() {
    let open = || Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
    // packets as small as on Ethernet, which the kernel joins
    let (here, there, options) = (open(), open(), Options::datagram().mss(1_444));
    let listener = there.listen(0, &options).unwrap();
    let asks = here.connect((there.underlay(), listener.local_address().port), &options).unwrap();
    asks.send(b"first").unwrap();
    let answers = listener.accept().unwrap();
    assert_eq!(answers.recv(&mut [0; 8]).unwrap(), 5);
    std::thread::scope(|scope| {
        for (socket, asks) in [(asks, true), (answers, false)] {
            scope.spawn(move || {
                let (mut dice, mut buffer, mut vector) = (Dice(9), vec![0; 300_000], Vec::new());
                for number in 0..2 * ROUNDS {
                    let message = message(number);
                    if (number % 2 == 0) == asks {
                        assert_eq!(socket.send(&message).unwrap(), message.len());
                    } else {
                        receive(&socket, &message, &mut dice, &mut buffer, &mut vector);
                    }
                }
                socket.close().unwrap();
            });
        }
    });
}
