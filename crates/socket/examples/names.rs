//! Two nodes of a cluster file call each other by name.
//!
//! `cargo run -p weft-socket --example names`, or with a file of one's own and the names of a node of this host, of another
//! and of a service there: `... --example names -- cluster.toml login compute-17:storage`

use std::error::Error;
use std::thread;

use weft_socket::{ClusterFile, Node, Options, load_cluster};

/// Both nodes are on this host; in a real file each has an address of its own.
const FILE: &str = r#"
[services]
storage = 2000

[[node]]
name = "login"
number = 1
at = "127.0.0.1:64981"

[[node]]
name = "compute-17"
number = 17
at = "127.0.0.1:64982"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [path, own, target] = arguments.as_slice() {
        return greet(&load_cluster(path)?, own, target);
    }
    let file = ClusterFile::parse(FILE)?;
    let server = Node::builder().cluster(&file).named("compute-17").open()?;
    let storage = file.cluster.service("storage").ok_or("the file has this service")?;
    let listener = server.listen(storage.get(), &Options::datagram())?;
    let greeted = thread::spawn(move || -> std::io::Result<Vec<u8>> {
        Ok(listener.accept()?.recv_message()?.to_vec())
    });
    greet(&file, "login", "compute-17:storage")?;
    println!("{}", String::from_utf8_lossy(&greeted.join().expect("the server does not panic")?));
    Ok(())
}

fn greet(file: &ClusterFile, own: &str, target: &str) -> Result<(), Box<dyn Error>> {
    let node = Node::builder().cluster(file).named(own).open()?;
    let socket = node.connect(target, &Options::datagram())?;
    socket.send(format!("{own} greets {target}").as_bytes())?;
    socket.close()?;
    Ok(())
}
