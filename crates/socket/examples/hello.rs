//! One node listens, another connects without any configuration, and a message goes there and back.
//!
//! `cargo run -p weft-socket --example hello`

use std::error::Error;
use std::thread;

use weft_socket::{Node, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
    let listener = server.listen(7000, &Options::datagram())?;
    let there = (server.underlay(), listener.local_address().port);

    let echo = thread::spawn(move || -> std::io::Result<()> {
        let socket = listener.accept()?;
        let message = socket.recv_message()?; // a loan: the bytes stay where they arrived
        socket.send(&message.to_vec())?;
        socket.close()?;
        Ok(())
    });

    let node = Node::open()?; // a random node number, any UDP port
    let socket = node.connect(there, &Options::datagram())?;
    socket.send(b"hello, other node")?;
    let mut buffer = [0; 64];
    let len = socket.recv(&mut buffer)?;
    println!("{}", String::from_utf8_lossy(&buffer[..len]));
    let result = socket.close()?;
    println!("closed, and the peer knows it: {}", result.confirmed);
    echo.join().expect("the echo does not panic")?;
    Ok(())
}
