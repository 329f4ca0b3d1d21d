//! The blocks of a pcapng file: section header, interface, packets. Numbers are little-endian.

/// Which way a packet went, as option `epb_flags` tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    In = 1,
    Out = 2,
}

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
const LINKTYPE_ETHERNET: u32 = 1;
const OPTION_APPLICATION: u16 = 4;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;

/// What every file begins with: one section with one interface called `name`, times in nanoseconds.
pub(super) fn start(name: &str) -> Vec<u8> {
    let mut section = Vec::new();
    section.extend(BYTE_ORDER.to_le_bytes());
    section.extend([1, 0, 0, 0]); // version 1.0
    section.extend(u64::MAX.to_le_bytes()); // the length of the section is not told
    option(&mut section, OPTION_APPLICATION, b"weft");
    end_of_options(&mut section);

    let mut interface = Vec::new();
    interface.extend(LINKTYPE_ETHERNET.to_le_bytes());
    interface.extend([0; 4]); // packets are recorded whole
    option(&mut interface, OPTION_INTERFACE_NAME, name.as_bytes());
    option(&mut interface, OPTION_TIME_RESOLUTION, &[9]);
    end_of_options(&mut interface);
    [block(SECTION_HEADER, &section), block(INTERFACE, &interface)].concat()
}

/// One packet.
pub(super) fn packet(time_ns: u64, direction: Direction, frame: &[u8]) -> Vec<u8> {
    let len = u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes();
    let time = time_ns.to_le_bytes();
    let mut body = Vec::with_capacity(frame.len() + 48);
    body.extend([0; 4]); // the first interface
    body.extend([&time[4..], &time[..4], &len, &len].concat());
    body.extend(frame);
    pad(&mut body);
    option(&mut body, OPTION_PACKET_FLAGS, &(direction as u32).to_le_bytes());
    end_of_options(&mut body);
    block(ENHANCED_PACKET, &body)
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
    [&kind.to_le_bytes(), &len[..], body, &len].concat()
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(value);
    pad(out);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}

/// Zero bytes up to a multiple of four.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_block_is_laid_out_as_the_format_says() {
        let block = packet(0x0102_0304_0506_0708, Direction::Out, &[0xAA, 0xBB, 0xCC, 0xDD, 0xEE]);
        #[rustfmt::skip]
        let expected = [
            6, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, // kind, length, interface
            4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 5, 0, 0, 0, // time high, time low, captured, original
            0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0, 0, 0,
            2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, // flags: outbound; end of options
            52, 0, 0, 0,
        ];
        assert_eq!(block, expected);
    }

    #[test]
    fn blocks_are_multiples_of_four_whatever_the_name_is() {
        for name in ["", "u", "udp", "fault(loopback)"] {
            assert_eq!(start(name).len() % 4, 0);
        }
    }
}
