//! `cdp.h` and the library say the same: sizes, offsets, constants, functions and their types.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::offset_of;

use cdp::{CdpAddr, CdpCloseResult, CdpNodeConfig, CdpNodeStats, CdpStats};
use tempfile::TempDir;

use crate::cc;

/// `_Static_assert`s that a struct of C is laid out as that of Rust.
macro_rules! layout {
    ($out:expr, $rust:ty, $c:literal, $($field:ident),+) => {
        let _ = writeln!($out, "_Static_assert(sizeof(struct {}) == {}, \"size\");", $c, size_of::<$rust>());
        $(let _ = writeln!(
            $out,
            "_Static_assert(offsetof(struct {}, {}) == {}, \"offset\");",
            $c, stringify!($field), offset_of!($rust, $field)
        );)+
    };
}

fn layouts() -> String {
    let mut out = String::new();
    layout!(
        out,
        CdpAddr,
        "cdp_addr",
        node,
        port,
        underlay,
        underlay_port,
        reserved,
        underlay_scope,
        underlay_ip
    );
    layout!(out, CdpCloseResult, "cdp_close_result", confirmed, discarded_here, discarded_by_peer, reason);
    layout!(
        out,
        CdpNodeConfig,
        "cdp_node_config",
        size,
        flags,
        node,
        ports,
        workers,
        linger_ms,
        scheme,
        spin_us,
        source_ports,
        reserved,
        memory_bytes,
        socket_buffer_bytes,
        bind,
        stat_name,
        cluster,
        name
    );
    layout!(
        out,
        CdpNodeStats,
        "cdp_node_stats",
        packets_in,
        packets_out,
        bytes_in,
        bytes_out,
        dropped,
        resets_sent,
        promised_bytes,
        connections,
        quiet,
        listeners
    );
    layout!(
        out,
        CdpStats,
        "cdp_stats",
        rtt_ns,
        rtt_min_ns,
        rtt_variance_ns,
        rto_ns,
        congestion_window,
        in_flight,
        send_window,
        receive_window,
        mss,
        queued_bytes,
        bytes_sent,
        bytes_acked,
        bytes_received,
        messages_sent,
        messages_received,
        packets_sent,
        packets_received,
        retransmitted,
        lost,
        spurious,
        timeouts,
        duplicates,
        out_of_order,
        discarded,
        discarded_by_peer,
        limited_by,
        limited_ns
    );
    out
}

fn constants() -> BTreeMap<&'static str, i64> {
    let mut constants: BTreeMap<&str, i64> =
        cdp::OPTIONS.iter().map(|row| (row.name, row.number.into())).collect();
    constants.extend([
        ("CDP_UDP_PORT", weft_base::limits::UDP_PORT.into()),
        ("CDP_NODE_LAST", weft_base::NodeId::LAST.into()),
        ("CDP_NODE_FIRST_UNREGISTERED", weft_base::NodeId::FIRST_UNREGISTERED.into()),
        ("CDP_DESCRIPTORS_MAX", cdp::CDP_DESCRIPTORS_MAX.into()),
        ("CDP_UNDERLAY_NONE", cdp::CDP_UNDERLAY_NONE.into()),
        ("CDP_UNDERLAY_IPV4", cdp::CDP_UNDERLAY_IPV4.into()),
        ("CDP_UNDERLAY_IPV6", cdp::CDP_UNDERLAY_IPV6.into()),
        ("CDP_NODE_STRICT", cdp::CDP_NODE_STRICT.into()),
        ("CDP_NODE_SPIN", cdp::CDP_NODE_SPIN.into()),
        ("CDP_NODE_NO_SPIN", cdp::CDP_NODE_NO_SPIN.into()),
        ("CDP_NODE_OPEN", cdp::CDP_NODE_OPEN.into()),
        ("CDP_NODE_PORTS_BY_CORES", cdp::CDP_NODE_PORTS_BY_CORES.into()),
        ("CDP_SCHEME_DEFAULT", cdp::CDP_SCHEME_DEFAULT.into()),
        ("CDP_SCHEME_COARSE", cdp::CDP_SCHEME_COARSE.into()),
        ("CDP_SCHEME_FINE", cdp::CDP_SCHEME_FINE.into()),
        ("CDP_SCHEME_EPOCH", cdp::CDP_SCHEME_EPOCH.into()),
        ("CDP_NODE_DEFAULT", cdp::CDP_NODE_DEFAULT.into()),
        ("CDP_DATAGRAM", cdp::CDP_DATAGRAM.into()),
        ("CDP_STREAM", cdp::CDP_STREAM.into()),
        ("CDP_DONTWAIT", cdp::CDP_DONTWAIT.into()),
        ("CDP_TRUNC", cdp::CDP_TRUNC.into()),
        ("CDP_READABLE", cdp::CDP_READABLE.into()),
        ("CDP_WRITABLE", cdp::CDP_WRITABLE.into()),
        ("CDP_CLOSED", cdp::CDP_CLOSED.into()),
        ("CDP_CUBIC", cdp::CDP_CUBIC),
        ("CDP_MODEL", cdp::CDP_MODEL),
        ("CDP_FIXED", cdp::CDP_FIXED),
        ("CDP_COALESCE_OFF", cdp::CDP_COALESCE_OFF),
        ("CDP_COALESCE_BUSY", cdp::CDP_COALESCE_BUSY),
    ]);
    for (index, verdict) in weft_socket::LimitedBy::ALL.iter().enumerate() {
        let name = match verdict {
            weft_socket::LimitedBy::Application => "CDP_LIMITED_APPLICATION",
            weft_socket::LimitedBy::ReceiverWindow => "CDP_LIMITED_RECEIVER_WINDOW",
            weft_socket::LimitedBy::CongestionWindow => "CDP_LIMITED_CONGESTION_WINDOW",
            weft_socket::LimitedBy::PathLoss => "CDP_LIMITED_PATH_LOSS",
        };
        constants.insert(name, i64::try_from(index).expect("few verdicts"));
    }
    constants
}

fn header() -> String {
    std::fs::read_to_string(cc::home().join("include/cdp.h")).expect("the header is there")
}

/// What the compiler says about `text` after the header.
fn compile(text: &str) {
    let folder = TempDir::new().expect("a folder for temporary files");
    let source = folder.path().join("agreement.c");
    std::fs::write(&source, format!("#include <cdp.h>\n{text}")).expect("a file in a new folder");
    cc::check(&folder, &source);
}

#[test]
fn structs_are_laid_out_alike() {
    compile(&layouts());
}

#[test]
fn constants_are_alike_and_none_is_unknown_here() {
    let constants = constants();
    let asserts =
        constants.iter().map(|(name, value)| format!("_Static_assert({name} == {value}, \"{name}\");\n"));
    compile(&asserts.collect::<String>());
    // Not numbers of the library: the guard, an initialiser, a size for callers.
    let others = ["CDP_H", "CDP_NODE_CONFIG_INIT", "CDP_ADDR_TEXT_MAX"];
    for line in header().lines().filter_map(|line| line.strip_prefix("#define ").map(str::to_owned)) {
        let name = line.split_whitespace().next().unwrap();
        assert!(constants.contains_key(name) || others.contains(&name), "{name} is not known to the library");
    }
}

#[test]
#[should_panic(expected = "static assertion failed")]
fn a_constant_that_differs_would_be_found() {
    compile("_Static_assert(CDP_STREAM == 3, \"stream\");");
}

#[test]
fn the_header_is_c_plus_plus_too() {
    let folder = TempDir::new().expect("a folder for temporary files");
    let source = folder.path().join("agreement.c");
    std::fs::write(&source, "#include <cdp.h>\nint main() { return cdp_socket(CDP_STREAM); }\n").unwrap();
    let mut compiler = std::process::Command::new("c++");
    compiler
        .args(["-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(cc::home().join("include"));
    compiler.arg(&source);
    match compiler.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            weft_skip::skipped!("no C++ compiler here ({error}); install g++ to check the header with it");
        }
    }
}

/// Functions by name, each as the list of its types in the words of C, the returned one first.
fn declared() -> BTreeMap<String, Vec<String>> {
    let mut text = String::new();
    let header = header();
    let mut rest = header.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        text.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let lines =
        text.lines().filter(|line| !line.starts_with('#') && !line.ends_with('{')).collect::<Vec<_>>();
    let joined = lines.join(" ");
    let statements =
        joined.split(';').filter(|statement| statement.contains("cdp_") && statement.contains('('));
    statements
        .map(|statement| {
            let (front, parameters) =
                statement.trim().trim_end_matches(')').split_once('(').expect("a bracket, as was asked for");
            let at = front.rfind("cdp_").expect("the name of a function");
            let returned = front[..at].to_owned();
            // The last word of a parameter is its name.
            let types = parameters.split(',').map(|parameter| {
                let parameter = parameter.trim();
                let end = parameter.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
                parameter[..end].to_owned()
            });
            let types = std::iter::once(returned).chain(types).map(|text| text.replace(' ', ""));
            (front[at..].trim().to_owned(), types.filter(|text| !text.is_empty()).collect())
        })
        .collect()
}

/// The same, read from the sources of the library.
fn defined() -> BTreeMap<String, Vec<String>> {
    let mut functions = BTreeMap::new();
    let entries = std::fs::read_dir(cc::home().join("src")).expect("sources");
    // folders hold tests only
    for source in entries.map(|entry| entry.expect("a source").path()).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(source).expect("a source in UTF-8");
        for definition in text.split("extern \"C\" fn cdp_").skip(1) {
            let (signature, _) = definition.split_once('{').expect("a body");
            let (name, rest) = signature.split_once('(').expect("a bracket, as was asked for");
            let (parameters, returned) = rest.rsplit_once(") -> ").expect("a result");
            let parameters = parameters.split(',').filter_map(|p| p.split_once(':').map(|(_, kind)| kind));
            let types = std::iter::once(returned).chain(parameters).map(|kind| in_c(kind.trim())).collect();
            functions.insert(format!("cdp_{name}"), types);
        }
    }
    functions
}

fn in_c(kind: &str) -> String {
    if let Some(target) = kind.strip_prefix("*const ") {
        return format!("const{}*", in_c(target));
    }
    if let Some(target) = kind.strip_prefix("*mut ") {
        return format!("{}*", in_c(target));
    }
    let name = match kind {
        "c_int" => "int",
        "c_char" => "char",
        "c_void" => "void",
        "ssize_t" => "ssize_t",
        "usize" => "size_t",
        "u32" => "uint32_t",
        "u16" => "uint16_t",
        "CdpAddr" => "structcdp_addr",
        "CdpCloseResult" => "structcdp_close_result",
        "CdpNodeConfig" => "structcdp_node_config",
        "CdpNodeStats" => "structcdp_node_stats",
        "CdpStats" => "structcdp_stats",
        other => panic!("{other} has no counterpart in C"),
    };
    name.to_owned()
}

#[test]
fn functions_are_declared_as_they_are_defined() {
    let declared = declared();
    assert!(declared.len() > 25, "only {} functions were found in the header", declared.len());
    for (name, types) in &declared {
        assert_eq!(Some(types), defined().get(name), "{name}");
    }
    let hidden: Vec<String> = defined().into_keys().filter(|name| !declared.contains_key(name)).collect();
    assert_eq!(hidden, [""; 0], "defined, but not in the header");
}
