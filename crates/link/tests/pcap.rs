//! A recording, read back by tshark.

use std::path::{Path, PathBuf};
use std::process::Command;

use weft_link::{Hub, Link, Pcap, RecvBatch, SendBatch, Udp};

use helpers::*;

#[test]
fn tshark_shows_every_packet_as_udp_with_direction_and_right_checksums() {
    let scratch = Scratch::new("loopback");
    let hub = Hub::new(1500);
    let (a, b) = (Pcap::create(hub.endpoint().unwrap(), &scratch.0).unwrap(), hub.endpoint().unwrap());
    let mut batch = SendBatch::new();
    for len in [40, 41, 1472] {
        batch.push_slice(b.info().local, &vec![0x5A; len]);
    }
    a.send(&mut batch).unwrap();
    batch.push_slice(a.info().local, &[1; 99]);
    b.send(&mut batch).unwrap();
    assert_eq!(a.recv(&mut RecvBatch::new()).unwrap(), 1);
    drop(a);

    let fields =
        ["ip.src", "ip.dst", "udp.dstport", "udp.length", "udp.checksum.status", "ip.checksum.status"];
    let Some(lines) = tshark(&scratch.0, &[&fields[..], &["frame.packet_flags_direction"]].concat()) else {
        return;
    };
    let out = |len: usize| format!("127.77.0.1,127.77.0.2,64064,{},1,1,0x02", len + 8);
    let expected = [out(40), out(41), out(1472), "127.77.0.2,127.77.0.1,64064,107,1,1,0x01".to_owned()];
    let plain: Vec<_> =
        lines.iter().map(|line| line.replace("0x00000002", "0x02").replace("0x00000001", "0x01")).collect();
    assert_eq!(plain, expected);
}

#[test]
fn tshark_reads_ipv6_and_times_near_now() {
    let scratch = Scratch::new("udp6");
    let a = Udp::bind("[::1]:0".parse().unwrap()).unwrap();
    let a = Pcap::create(a, &scratch.0).unwrap();
    let to = a.info().local;
    let mut batch = SendBatch::new();
    batch.push_slice(to, &[7; 333]);
    a.send(&mut batch).unwrap();
    drop(a);
    let Some(lines) =
        tshark(&scratch.0, &["ipv6.dst", "udp.length", "udp.checksum.status", "frame.time_epoch"])
    else {
        return;
    };
    let (start, seconds) = lines[0].rsplit_once(',').unwrap();
    assert_eq!(start, "::1,341,1");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let recorded = seconds.parse::<f64>().unwrap_or_else(|_| panic!("{seconds} is no time in seconds"));
    assert!((now - recorded).abs() < 60.0, "{seconds} against {now}");
}

#[test]
fn beyond_its_limit_a_recording_counts_only() {
    let hub = Hub::new(1500);
    let a = Pcap::with_limit(hub.endpoint().unwrap(), Vec::new(), 1000);
    let mut batch = SendBatch::new();
    (0..10).for_each(|_| batch.push_slice(a.info().local, &[1; 200]));
    a.send(&mut batch).unwrap();
    assert_eq!(a.omitted(), 7);
    assert!(a.into_writer().unwrap().len() < 1200);
}

#[cfg(test)]
mod helpers {
    use super::*;

    /// A file that is removed when the test ends.
    pub(super) struct Scratch(pub(super) PathBuf);

    impl Scratch {
        pub(super) fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("weft-link-{}-{name}.pcapng", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// What tshark says of the fields of each packet, or `None` if it is not installed.
    pub(super) fn tshark(file: &Path, fields: &[&str]) -> Option<Vec<String>> {
        let mut command = Command::new("tshark");
        command.args(["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-r"]).arg(file);
        command.args(["-T", "fields", "-E", "separator=,"]);
        command.args(fields.iter().flat_map(|field| ["-e", field]));
        match command.output() {
            Ok(output) => {
                let complaint = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "tshark does not open the file: {complaint}");
                Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
            }
            Err(error) => {
                weft_skip::skipped!("tshark cannot be run ({error}); install it to check recordings");
                None
            }
        }
    }
}
