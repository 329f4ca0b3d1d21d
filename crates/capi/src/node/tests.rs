use super::*;

fn config() -> CdpNodeConfig {
    CdpNodeConfig {
        size: u32::try_from(size_of::<CdpNodeConfig>()).unwrap(),
        flags: 0,
        node: 0,
        ports: 0,
        workers: 0,
        linger_ms: 0,
        scheme: 0,
        spin_us: 0,
        source_ports: 0,
        reserved: 0,
        memory_bytes: 0,
        socket_buffer_bytes: 0,
        bind: std::ptr::null(),
        stat_name: std::ptr::null(),
        cluster: std::ptr::null(),
        name: std::ptr::null(),
    }
}

fn refusal(config: CdpNodeConfig) -> String {
    // SAFETY: the texts are NULL or literals that end in zero.
    unsafe { config.builder() }.err().unwrap().sentence
}

#[test]
fn a_field_that_makes_no_sense_is_named() {
    assert!(refusal(CdpNodeConfig { size: 4, ..config() }).contains("size is 4"));
    assert!(refusal(CdpNodeConfig { flags: 32, ..config() }).contains("0x20"));
    assert!(refusal(CdpNodeConfig { reserved: 7, ..config() }).contains("reserved is 7"));
    assert!(refusal(CdpNodeConfig { flags: 16, ports: 3, ..config() }).contains("ports is 3"));
    assert!(refusal(CdpNodeConfig { scheme: 9, ..config() }).contains("scheme 9"));
    assert!(refusal(CdpNodeConfig { node: 0xFF_FFFF, ..config() }).contains("0xffffff"));
    assert!(refusal(CdpNodeConfig { bind: c"here".as_ptr(), ..config() }).contains("\"here\""));
    assert!(refusal(CdpNodeConfig { flags: 9, ..config() }).contains("contradict"));
    assert!(refusal(CdpNodeConfig { name: c"login".as_ptr(), ..config() }).contains("without cluster"));
}

#[test]
fn a_node_that_was_never_opened_cannot_be_closed() {
    assert_eq!(cdp_node_close(12_345, 0), -1);
}
