use super::*;

fn own_name(test: &str) -> String {
    format!("test-{test}-{}", std::process::id())
}

fn path_of(name: &str) -> io::Result<PathBuf> {
    Ok(directory()?.join(file_of(name)?))
}

#[test]
fn a_named_node_answers_until_it_is_dropped() {
    let name = own_name("answer");
    let control = Control::open(&name, Arc::new(|asked| format!("{{{asked}}}"))).unwrap();
    assert_eq!(query(&name, "").unwrap(), "{}");
    assert_eq!(query(&name, "more").unwrap(), "{more}");
    assert!(list().unwrap().contains(&name));
    let mode = std::fs::metadata(&control.path).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(control);
    assert!(query(&name, "").is_err());
    assert!(!list().unwrap().contains(&name));
}

#[test]
fn a_node_ends_also_when_its_file_is_gone() {
    let control = Control::open(&own_name("gone"), Arc::new(|_| String::new())).unwrap();
    std::fs::remove_file(&control.path).unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(control);
        ended.send(())
    });
    assert!(end.recv_timeout(LONG_PATIENCE).is_ok());
}

/// Neither who has not asked yet nor who does not read holds up the end of a node for longer than a moment.
#[test]
fn a_node_ends_beside_peers_that_do_nothing() {
    for (test, answer_bytes) in [("asks-nothing", 2), ("reads-nothing", 8 << 20)] {
        // A busy machine may stand still for as long once, and hardly three times.
        let ends_soon = || {
            let text = "a".repeat(answer_bytes);
            let control = Control::open(&own_name(test), Arc::new(move |_| text.clone())).unwrap();
            let peer = UnixStream::connect(&control.path).unwrap();
            let is_answered = || control.peer.0.lock().unwrap().is_some();
            while !is_answered() {
                std::thread::yield_now();
            }
            if answer_bytes > 2 {
                peer.shutdown(Shutdown::Write).unwrap();
            }
            let begin = Instant::now();
            drop(control);
            begin.elapsed() < QUESTION_PATIENCE - END_PATIENCE
        };
        assert!((0..3).any(|_| ends_soon()), "{test}");
    }
}

#[test]
fn who_says_nothing_at_all_gets_the_usual() {
    let name = own_name("silent");
    let control = Control::open(&name, Arc::new(|asked| format!("{{{asked}}}"))).unwrap();
    let mut text = String::new();
    UnixStream::connect(&control.path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "{}");
}

#[test]
fn a_name_is_taken_once_and_a_dead_one_is_replaced() {
    let name = own_name("twice");
    let first = Control::open(&name, Arc::new(|_| String::new())).unwrap();
    assert!(Control::open(&name, Arc::new(|_| String::new())).is_err());
    // A process that died leaves its file behind.
    let left = path_of(&name).unwrap();
    drop(first);
    drop(UnixListener::bind(&left).unwrap());
    drop(Control::open(&name, Arc::new(|_| String::new())).unwrap());
}

/// A process that stands still accepts nobody, and those who want to connect to it wait: not those who list the nodes, or begin or end one.
#[test]
fn a_node_that_stands_still_holds_up_nobody() {
    let name = own_name("still");
    let still = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    still.bind(&SockAddr::unix(path_of(&name).unwrap()).unwrap()).unwrap();
    still.listen(0).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    let of_list = name.clone();
    std::thread::spawn(move || {
        let lists: Vec<_> = (0..4).map(|_| list().unwrap().contains(&of_list)).collect();
        // One whose turn never comes is refused as well.
        let asked = query(&of_list, "").map_err(|error| error.kind());
        done.send((lists, asked))
    });
    let (lists, asked) = is_done.recv_timeout(LONG_PATIENCE).expect("nobody waits");
    assert_eq!(lists, [true; 4], "it lives");
    assert_eq!(asked, Err(io::ErrorKind::WouldBlock));
    drop(still);
    assert!(!list().unwrap().contains(&name));
}

#[test]
fn who_was_killed_is_not_listed_and_leaves_nothing() {
    let name = own_name("killed");
    let left = path_of(&name).unwrap();
    let alone = lock(&directory().unwrap()).unwrap();
    drop(UnixListener::bind(&left).unwrap());
    drop(alone);
    let alive = own_name("alive");
    let control = Control::open(&alive, Arc::new(|_| String::new())).unwrap();
    let names = list().unwrap();
    assert!(names.contains(&alive) && !names.contains(&name), "{names:?}");
    assert!(!left.exists());
    drop(control);
    assert!(!path_of(&alive).unwrap().exists());
}

#[test]
fn one_that_ends_while_it_is_asked_says_nothing() {
    let name = own_name("ends");
    // Nobody who lists connects meanwhile.
    let _alone = lock(&directory().unwrap()).unwrap();
    let listener = UnixListener::bind(path_of(&name).unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(listener.accept().unwrap()));
        assert_eq!(query(&name, "").unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
    std::fs::remove_file(path_of(&name).unwrap()).unwrap();
}

#[test]
fn nodes_come_and_go_while_others_list_them() {
    std::thread::scope(|scope| {
        for index in 0..3 {
            scope.spawn(move || {
                let name = own_name(&format!("busy-{index}"));
                for _ in 0..50 {
                    let control = Control::open(&name, Arc::new(|_| "{}".to_owned())).unwrap();
                    assert!(list().unwrap().contains(&name));
                    assert_eq!(query(&name, "").unwrap(), "{}");
                    drop(control);
                    assert!(!list().unwrap().contains(&name));
                }
            });
        }
    });
}

#[test]
fn a_name_cannot_leave_the_directory() {
    for name in ["", "..", "a/b", ".hidden", "a b"] {
        assert!(path_of(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_runtime_directory_that_is_no_good_is_as_none() {
    let usual = directory_in(None).unwrap();
    assert_eq!(usual, PathBuf::from(format!("/tmp/weft-{}", own_uid().unwrap())));
    let own = std::env::temp_dir().join(own_name("runtime"));
    std::fs::create_dir(&own).unwrap();
    assert_eq!(directory_in(Some(own.clone().into())).unwrap(), own.join("weft"));
    std::fs::set_permissions(own.join("weft"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let long = own.join("a".repeat(DIRECTORY_BYTES_MAX));
    std::fs::create_dir(&long).unwrap();
    let of_another = own.join("b");
    std::fs::create_dir(&of_another).unwrap();
    if own_uid().unwrap() == 0 {
        std::os::unix::fs::chown(&of_another, Some(65_534), None).unwrap();
    } else {
        std::fs::set_permissions(&of_another, std::fs::Permissions::from_mode(0o500)).unwrap();
    }
    let (long, of_another) = (long.to_str().unwrap(), of_another.to_str().unwrap());
    for no_good in [own.to_str().unwrap(), "/nonexistent", ".", "", long, "/proc", of_another] {
        assert_eq!(directory_in(Some(no_good.into())).unwrap(), usual, "{no_good:?}");
    }
    std::fs::remove_dir_all(own).unwrap();
}

/// What the runtime directory is may differ between a node and who looks for it.
#[test]
fn a_node_is_found_wherever_it_registered() {
    let name = own_name("elsewhere");
    let (_, usual) = places(std::env::var_os("XDG_RUNTIME_DIR")).unwrap();
    let path = own_directory(usual).unwrap().join(file_of(&name).unwrap());
    let _listener = bind(&path, &name).unwrap();
    assert!(list().unwrap().contains(&name));
    std::fs::remove_file(path).unwrap();
}
