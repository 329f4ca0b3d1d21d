//! `weft` under the launchers of the machine: no command is told an address, and all find each other.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read};
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    const WEFT: &str = env!("CARGO_BIN_EXE_weft");
    /// Longest time one job may take.
    const LIMIT: Duration = Duration::from_secs(180);

    /// A launcher, and what it wants to be told before the ranks.
    struct Launcher {
        name: &'static str,
        /// The name of the program in Debian, where several launchers live side by side.
        program: &'static str,
        words: &'static [&'static str],
        package: &'static str,
    }

    const OPEN_MPI: Launcher = Launcher {
        name: "Open MPI (PMIx)",
        program: "mpirun.openmpi",
        words: &["--allow-run-as-root", "--oversubscribe"],
        package: "openmpi-bin",
    };
    const HYDRA: Launcher =
        Launcher { name: "Hydra (PMI, stream)", program: "mpiexec.hydra", words: &[], package: "mpich" };
    const HYDRA_PORT: Launcher = Launcher {
        name: "Hydra (PMI, port)",
        program: "mpiexec.hydra",
        words: &["-pmi-port"],
        package: "mpich",
    };
    const ALL: [Launcher; 3] = [OPEN_MPI, HYDRA, HYDRA_PORT];

    /// A job that is ended with all of its ranks when it is dropped.
    struct Job {
        child: Child,
    }

    impl Drop for Job {
        fn drop(&mut self) {
            // It ends its ranks before itself, if it is given the time; it may have ended already.
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&self.child),
                rustix::process::Signal::TERM,
            );
            let started_at = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && started_at.elapsed() < LIMIT {
                thread::sleep(Duration::from_millis(10));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    impl Launcher {
        /// Whether it is there; says so aloud if not.
        fn is_there(&self) -> bool {
            let found = Command::new(self.program).arg("--version").output();
            if let Err(error) = &found {
                weft_skip::skipped!(
                    "{} does not run here ({error}; Debian: {}), so no job of {} was started",
                    self.program,
                    self.package,
                    self.name
                );
            }
            found.is_ok()
        }

        /// Starts a job of one rank for each of `ranks`, the words of a command.
        fn start(&self, dir: &Path, ranks: &[Vec<&str>]) -> Job {
            let mut command = Command::new(self.program);
            command.args(self.words);
            for (index, words) in ranks.iter().enumerate() {
                command.args(if index == 0 { &["-n", "1"][..] } else { &[":", "-n", "1"] }).args(words);
            }
            // Launchers make sockets in their folder, whose paths must be short.
            command.current_dir(dir).env("TMPDIR", "/tmp");
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            Job { child: command.spawn().unwrap() }
        }

        fn run(&self, dir: &Path, ranks: &[Vec<&str>]) -> Output {
            self.start(dir, ranks).finish()
        }
    }

    impl Job {
        /// Waits for the end of the job.
        fn finish(mut self) -> Output {
            let (out, err) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
            let (out, err) = (thread::spawn(|| read(out)), thread::spawn(|| read(err)));
            let started_at = Instant::now();
            let status = loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    break status;
                }
                assert!(started_at.elapsed() < LIMIT, "the job did not end within {LIMIT:?}");
                thread::sleep(Duration::from_millis(10));
            };
            Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
        }

        /// The first line that any rank says and that holds `part`.
        fn line(&mut self, part: &str) -> String {
            let (sender, lines) = mpsc::channel();
            follow(self.child.stdout.take().unwrap(), sender.clone());
            follow(self.child.stderr.take().unwrap(), sender);
            let mut seen = Vec::new();
            loop {
                let line = lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {part:?} after {seen:?}"));
                if line.contains(part) {
                    return line;
                }
                seen.push(line);
            }
        }
    }

    fn read(mut stream: impl Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn follow(stream: impl Read + Send + 'static, lines: mpsc::Sender<String>) {
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                // Who has read enough does not listen any more, and the job must not wait for it.
                let _ = lines.send(line);
            }
        });
    }

    fn text(output: &Output) -> String {
        String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
    }

    /// Runs `test` with each launcher that is there, in a folder of its own.
    fn with_each(test: impl Fn(&Launcher, &Path)) {
        for launcher in ALL.iter().filter(|launcher| launcher.is_there()) {
            let dir = tempfile::tempdir().unwrap();
            println!("{}", launcher.name);
            test(launcher, dir.path());
        }
    }

    #[test]
    fn a_file_goes_from_rank_to_rank_without_an_address() {
        with_each(|launcher, dir| {
            let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
            fs::write(dir.join("numbers"), &bytes).unwrap();
            fs::create_dir(dir.join("in")).unwrap();
            let recv = vec![WEFT, "recv", "--once", "in"];
            let output = launcher.run(dir, &[recv, vec![WEFT, "send", "numbers", "rank-0"]]);
            assert!(output.status.success(), "{}", text(&output));
            assert_eq!(fs::read(dir.join("in/numbers")).unwrap(), bytes);
            let said = text(&output);
            assert!(said.contains("node 0x000001, port 1064") && said.contains("127.0.0.1:"), "{said}");
        });
    }

    #[test]
    fn throughput_is_measured_between_ranks() {
        with_each(|launcher, dir| {
            let server = vec![WEFT, "perf", "--server", "--once"];
            let client = vec![WEFT, "perf", "rank-1", "--time", "200ms", "--json"];
            let output = launcher.run(dir, &[client, server]);
            assert!(output.status.success(), "{}", text(&output));
            assert!(text(&output).contains("\"received_bits_per_second\""), "{}", text(&output));
        });
    }

    #[test]
    fn every_rank_reaches_the_echo_of_another() {
        with_each(|launcher, dir| {
            let server = vec![WEFT, "perf", "--server"];
            let ping = vec![WEFT, "ping", "rank-0", "--count", "3", "--interval", "1ms", "--json"];
            let mut job = launcher.start(dir, &[server, ping]);
            let line = job.line("p50_us");
            assert!(line.contains("\"count\":3"), "{line}");
        });
    }

    #[test]
    fn a_rank_that_never_comes_is_named_within_the_time_given() {
        with_each(|launcher, dir| {
            let waiting = |port: &'static str| vec![WEFT, "cat", "--listen", port, "--launcher-wait", "5s"];
            let started_at = Instant::now();
            let output = launcher.run(dir, &[waiting("7000"), vec!["sleep", "150"], waiting("7000")]);
            let said = text(&output);
            assert!(!output.status.success() && started_at.elapsed() < Duration::from_secs(140), "{said}");
            assert!(said.contains("rank 1 of 3 did not come within 5s; "), "{said}");
            assert!(said.contains("--launcher off"), "{said}");
        });
    }

    #[test]
    fn two_commands_of_one_rank_may_follow_each_other_under_pmix() {
        if !OPEN_MPI.is_there() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("a"), "first").unwrap();
        fs::write(dir.path().join("b"), "second").unwrap();
        let recv = format!("{WEFT} recv --once in && {WEFT} recv --once in");
        let send = format!("{WEFT} send a rank-0 && {WEFT} send b rank-0");
        let output = OPEN_MPI.run(dir.path(), &[vec!["sh", "-c", &recv], vec!["sh", "-c", &send]]);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(fs::read_to_string(dir.path().join("in/b")).unwrap(), "second");
    }

    #[test]
    fn commands_may_go_without_their_launcher_and_know_no_ranks_then() {
        with_each(|launcher, dir| {
            let alone = vec![WEFT, "ping", "rank-0", "--launcher", "off"];
            let output = launcher.run(dir, &[alone, vec!["sleep", "0"]]);
            assert!(text(&output).contains("unknown host \"rank-0\""), "{}", text(&output));
        });
    }

    #[test]
    fn a_name_or_number_that_the_job_does_not_have_is_refused() {
        with_each(|launcher, dir| {
            let output = launcher.run(dir, &[vec![WEFT, "ping", "rank-7"], vec![WEFT, "ping", "rank-7"]]);
            assert!(text(&output).contains("its ranks are rank-0 to rank-1"), "{}", text(&output));
            let numbered = vec![WEFT, "ping", "rank-0", "--node", "9"];
            let output = launcher.run(dir, &[vec!["sleep", "0"], numbered]);
            assert!(text(&output).contains("this is rank-1 of 2 and so node 0x000002"), "{}", text(&output));
            let output = launcher.run(dir, &[vec![WEFT, "ping", "rank-0"]]);
            assert!(text(&output).contains("ranks have names only where"), "{}", text(&output));
        });
    }

    /// Two network namespaces on one wire, as two hosts; removed when dropped.
    struct Hosts {
        names: [String; 2],
    }

    impl Hosts {
        /// `None` where that is not permitted.
        fn new() -> Option<Self> {
            let id = std::process::id();
            let hosts = Self { names: [format!("weft-la{id}"), format!("weft-lb{id}")] };
            let [a, b] = &hosts.names;
            let (wire_a, wire_b) = (format!("wla{id}"), format!("wlb{id}"));
            let made = [
                format!("netns add {a}"),
                format!("netns add {b}"),
                format!("link add {wire_a} netns {a} type veth peer name {wire_b} netns {b}"),
                format!("-n {a} addr add 10.77.0.1/24 dev {wire_a}"),
                format!("-n {b} addr add 10.77.0.2/24 dev {wire_b}"),
                format!("-n {a} link set {wire_a} up"),
                format!("-n {b} link set {wire_b} up"),
                format!("-n {a} link set lo up"),
                format!("-n {b} link set lo up"),
            ];
            made.iter().all(|words| ip(words)).then_some(hosts)
        }

        /// The words of a command on a host.
        fn on<'a>(&'a self, host: usize, words: &[&'a str]) -> Vec<&'a str> {
            [&["ip", "netns", "exec", &self.names[host], WEFT], words].concat()
        }
    }

    impl Drop for Hosts {
        fn drop(&mut self) {
            for name in &self.names {
                ip(&format!("netns del {name}"));
            }
        }
    }

    fn ip(words: &str) -> bool {
        Command::new("ip").args(words.split(' ')).output().is_ok_and(|output| output.status.success())
    }

    /// The launcher holds both for one host, as it would two containers.
    #[test]
    fn ranks_with_network_stacks_of_their_own_are_reached_by_the_network_that_is_named() {
        if !HYDRA.is_there() {
            return;
        }
        let Some(hosts) = Hosts::new() else {
            weft_skip::skipped!(
                "no network namespaces can be made here, so no job ran on two hosts; run as root"
            );
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("a"), "over the wire").unwrap();
        let job = |reach: &[&'static str]| {
            let recv = hosts.on(0, &[&["recv", "--once", "in"], reach].concat());
            let send = hosts.on(1, &[&["send", "a", "rank-0"], reach].concat());
            HYDRA.run(dir.path(), &[recv, send])
        };
        let said = text(&job(&[]));
        assert!(said.contains("which other hosts do not reach; ") && said.contains("--reach"), "{said}");
        let output = job(&["--reach", "10.77.0.0/24"]);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).contains("listening on UDP 10.77.0.1:"), "{}", text(&output));
        assert_eq!(fs::read_to_string(dir.path().join("in/a")).unwrap(), "over the wire");
    }

    fn alone(variables: &[(&str, &str)]) -> Output {
        let words = ["ping", "localhost", "--count", "1", "--connect-timeout", "1s"];
        Command::new(WEFT).args(words).envs(variables.iter().copied()).output().unwrap()
    }

    #[test]
    fn a_launcher_whose_library_is_missing_is_told_in_a_sentence() {
        let dir = tempfile::tempdir().unwrap();
        // The first library of that name is none, which ends the search.
        fs::write(dir.path().join("libpmix.so.2"), "").unwrap();
        let path = dir.path().to_str().unwrap();
        let pmix = [("PMIX_NAMESPACE", "x"), ("PMIX_RANK", "0"), ("LD_LIBRARY_PATH", path)];
        let said = text(&alone(&pmix));
        assert!(
            said.contains("a PMIx launcher started this process, but its library cannot be loaded"),
            "{said}"
        );
        assert!(said.contains("install libpmix.so.2") && said.contains("--launcher off"), "{said}");
        // A port to call comes second.
        let both = [&pmix[..], &[("PMI_PORT", "127.0.0.1:9"), ("PMI_ID", "0")]].concat();
        let said = text(&alone(&both));
        assert!(said.contains("the PMI launcher of this process cannot be asked: 127.0.0.1:9"), "{said}");
    }

    #[test]
    fn variables_that_an_outer_launcher_left_behind_name_no_stream() {
        let said = text(&alone(&[("PMI_FD", "77"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")]));
        assert!(!said.contains("PMI"), "{said}");
    }
}
