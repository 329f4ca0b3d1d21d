//! A host, a compute node and an I/O node between them, as processes.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::Server;

/// Host 1 on one network, compute node 2 on another, I/O node 11 between them, at addresses of this process and this test
/// alone: others may run the same tests.
pub(crate) struct World {
    pub(crate) host: String,
    pub(crate) compute: String,
    pub(crate) near: String,
    pub(crate) far: String,
    /// The path of the cluster file.
    pub(crate) file: String,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(test: u8) -> Self {
        // No port that the kernel gives to who asks for any: it might be taken when the I/O node comes.
        let [.., high, low] = std::process::id().to_be_bytes();
        let loopback = |end: u8| format!("127.{}.{low}.{}:64164", 192 | high & 31, 10 * test + end);
        Self::at(loopback(1), loopback(2), loopback(3), loopback(4))
    }

    /// The same nodes at other places.
    pub(crate) fn at(host: String, near: String, far: String, compute: String) -> Self {
        let text = format!(
            "networks = [\"lan\", \"mesh\"]\n\
             [[node]]\nname = \"host\"\nnumber = 1\nat = {{ lan = \"{host}\" }}\n\
             [[node]]\nname = \"compute\"\nnumber = 2\nkind = \"compute\"\nat = {{ mesh = \"{compute}\" }}\n\
             [[node]]\nname = \"io\"\nnumber = 11\nkind = \"io\"\nat = {{ lan = \"{near}\", mesh = \"{far}\" }}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.toml");
        std::fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap().to_owned();
        Self { host, compute, near, far, file, _folder: folder }
    }

    /// Starts the I/O node, and waits until it forwards.
    pub(crate) fn forward(&self, space: Option<&str>, words: &[&str]) -> Server {
        let mut server = Server::open(space, &[&["io-node", "--cluster", &self.file], words].concat());
        let begun = server.event("forwarding");
        assert_eq!(begun["node"]["networks"][0]["underlay"], self.near, "{begun}");
        server
    }

    /// Starts a server of measurements as the compute node.
    pub(crate) fn serve(&self, space: Option<&str>) -> Server {
        let words = ["perf", "--server", "--cluster", &self.file, "--node", "compute", "--launcher", "off"];
        let mut server = Server::open(space, &words);
        server.event("listening");
        server
    }

    /// The words of a command that connects as the host to the compute node.
    pub(crate) fn reach<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        [words, &["--cluster", &self.file, "--node", "host", "--launcher", "off", "--json", "compute"]]
            .concat()
    }
}

/// A packet of 128 bytes from node `source` to node 2, with `hop` forwards behind it.
pub(crate) fn packet(source: u8, hop: u8) -> [u8; 128] {
    let mut bytes = [0; 128];
    bytes[..14].copy_from_slice(&[0x10 | hop, 0, 0, 2, 0x18, 0, 0, source, 0, 7, 0xC0, 0, 0, 128]);
    bytes
}

/// What a network counted, of the last event of an I/O node that ends.
pub(crate) fn totals(mut io: Server) -> [Value; 2] {
    io.signal(Signal::TERM);
    let end = io.event("end");
    assert_eq!(io.end(), 0);
    let networks = end["node"]["networks"].as_array().unwrap().clone();
    networks.try_into().unwrap()
}

/// Everything that came left, but for what found a queue full (CDP-LIM-14), and nothing else did.
pub(crate) fn assert_whole(networks: &[Value; 2]) {
    let sum = |key: &str| networks.iter().map(|network| network[key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("packets_in") > 0, "{networks:?}");
    assert_eq!(sum("packets_in"), sum("packets_out") + sum("queue_drops"), "{networks:?}");
    assert_eq!((sum("link_drops"), sum("queued")), (0, 0), "{networks:?}");
}
