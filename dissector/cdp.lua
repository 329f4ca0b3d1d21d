-- Wireshark dissector for CDP, the Cyclops Datagram Protocol, version 1 (docs/spec/cdp.md).
--
-- Put it into the folder of personal Lua plugins, or:  tshark -X lua_script:dissector/cdp.lua -r FILE
--
-- It claims UDP port 64064, EtherType 0x88B5, and by a heuristic CDP on any other UDP port. Its filters begin with
-- "cyclops", because "cdp" is Cisco's Discovery Protocol. A packet's number is shown twice: cyclops.seq.wire as it
-- travelled, and cyclops.seq after the seal was undone (section 6). Whether a connection is sealed is taken from its
-- SYN and SYN|ACK; a capture without them is judged by which of the two readings stays near the numbers seen before,
-- and the first packet is taken as sealed, the default of the protocol, unless the preference says otherwise.

local cdp = Proto("cyclops", "Cyclops Datagram Protocol")

cdp.prefs.integrity = Pref.enum("Integrity", 0, "Whether connections are sealed, where the capture does not tell", {
    { 1, "automatic", 0 }, { 2, "sealed", 1 }, { 3, "none", 2 },
}, false)

local HEADER = 28
local UDP_PORT, ETHERTYPE = 64064, 0x88B5

-- Lua 5.2 brings bit32, others bit; 5.3 and later have operators.
local bits = bit32 or bit or load([[return {
    band = function(a, b) return a & b end, bxor = function(a, b) return (a ~ b) & 0xffffffff end,
    rshift = function(a, n) return (a & 0xffffffff) >> n end }]])()
local band, bxor, rshift = bits.band, bits.bxor, bits.rshift
local function u32(value) return value % 0x100000000 end

---------------------------------------------------------------------------------------------------- tables of the spec

local FLAGS = { -- mask, name, in the order of the header
    { 0x80, "EOM" }, { 0x40, "ECE" }, { 0x20, "PIN" }, { 0x10, "ACK" },
    { 0x08, "DAT" }, { 0x04, "RST" }, { 0x02, "SYN" }, { 0x01, "FIN" },
}
local LEGAL = {} -- section 2.1
for _, set in ipairs { 0x02, 0x12, 0x10, 0x50, 0x18, 0x58, 0x98, 0xD8, 0x11, 0x51, 0x30, 0x70, 0x04, 0x14 } do
    LEGAL[set] = true
end

local REASONS = { -- section 16
    [0] = "none", "refused", "unknown", "abort", "died", "idle", "gave up", "stalled", "protocol", "service", "option",
    "version", "too big", "no room", "forbidden", "done", "leaving", "false ACK", "keys", "cookie",
}
local SERVICES = { "datagram", "stream" }
local INTEGRITIES = { [0] = "none", "sealed" }
local TYPES = { -- section 3.1
    [0] = "PAD", "CRC", "VERSIONS", "MSS", "SERVICE", "INTEGRITY", "COOKIE",
    [128] = "WSCALE", [129] = "SACKOK", [130] = "COALESCE", [131] = "MESSAGE", [132] = "KEEPALIVE", [133] = "CONFIRM",
    [134] = "IOSET", [144] = "SACK", [145] = "TIME", [146] = "CECOUNT", [147] = "REASON", [148] = "DISCARDED", [149] = "FARSACK",
}

local function type_name(kind)
    if TYPES[kind] then return TYPES[kind] end
    if kind >= 128 and kind % 16 == 10 then return "GREASE" end
    return kind < 128 and "unknown, critical" or "unknown, ignorable"
end

---------------------------------------------------------------------------------------------------- fields and experts

local f, experts = {}, {}

local function field(name, make, label, ...)
    local key = name:gsub("%.", "_")
    f[key] = make("cyclops." .. name, label, ...)
end

field("version", ProtoField.uint8, "Version", base.DEC, nil, 0xF0)
field("rtx", ProtoField.bool, "Retransmission (RTX)", 8, nil, 0x08)
field("ce", ProtoField.bool, "Congestion experienced (CE)", 8, nil, 0x04)
field("hop", ProtoField.uint8, "Forwards (HOP)", base.DEC, nil, 0x03)
field("flags", ProtoField.uint8, "Flags", base.HEX)
field("flags.names", ProtoField.string, "Flags by name")
for _, flag in ipairs(FLAGS) do
    field("flags." .. flag[2]:lower(), ProtoField.bool, flag[2], 8, nil, flag[1])
end
field("dst.node", ProtoField.uint24, "Destination node", base.HEX)
field("src.node", ProtoField.uint24, "Source node", base.HEX)
field("node", ProtoField.uint24, "Source or destination node", base.HEX)
field("dst.port", ProtoField.uint16, "Destination port")
field("src.port", ProtoField.uint16, "Source port")
field("port", ProtoField.uint16, "Source or destination port")
field("length", ProtoField.uint16, "Length")
field("window", ProtoField.uint16, "Window (slots)")
field("seq.wire", ProtoField.uint64, "Sequence number on the wire", base.HEX)
field("seq", ProtoField.uint64, "Sequence number", base.HEX)
field("ack", ProtoField.uint32, "Acknowledgement number (low 32 bits)", base.HEX)
field("checksum", ProtoField.uint32, "CRC32C of the packet", base.HEX)
field("seal", ProtoField.string, "Seal")
field("echo.seq", ProtoField.uint64, "Refused sequence number", base.HEX)
field("payload", ProtoField.bytes, "Data segment")
field("record.more", ProtoField.bool, "Goes on in the next packet (MORE)", 16, nil, 0x8000)
field("record.length", ProtoField.uint16, "Length", base.DEC, nil, 0x7FFF)
field("record.data", ProtoField.bytes, "Data")
field("trailer", ProtoField.bytes, "Bytes after LENGTH")
field("tlv.type", ProtoField.uint8, "Type")
field("tlv.length", ProtoField.uint8, "Length")
field("tlv.value", ProtoField.bytes, "Value")
field("pad", ProtoField.bytes, "PAD")
field("crc", ProtoField.uint32, "CRC", base.HEX)
field("versions", ProtoField.bytes, "Versions")
field("mss", ProtoField.uint16, "Largest data segment (bytes)")
field("service", ProtoField.uint8, "Service", base.DEC, SERVICES)
field("integrity", ProtoField.uint8, "Integrity", base.DEC, INTEGRITIES)
field("cookie", ProtoField.bytes, "Cookie")
field("wscale", ProtoField.uint8, "Window shift")
field("message", ProtoField.uint32, "Largest message (bytes)")
field("keepalive.interval", ProtoField.uint16, "PIN interval (s)")
field("keepalive.expiry", ProtoField.uint16, "Expiry (s)")
field("ioset.node", ProtoField.uint24, "I/O node", base.HEX)
field("sack", ProtoField.bytes, "Bitmap")
field("sack.held", ProtoField.string, "Held")
field("far.offset", ProtoField.uint32, "Offset")
field("far", ProtoField.bytes, "Bitmap")
field("far.held", ProtoField.string, "Held")
field("time.own", ProtoField.uint32, "Own token", base.HEX)
field("time.echoed", ProtoField.uint32, "Echoed token", base.HEX)
field("cecount", ProtoField.uint32, "DAT packets received with CE")
field("reason", ProtoField.uint16, "Reason", base.DEC, REASONS)
field("reason.detail", ProtoField.uint16, "Detail")
field("discarded", ProtoField.uint32, "Packets acknowledged but never delivered")

local list = {}
for _, value in pairs(f) do list[#list + 1] = value end
cdp.fields = list

local function note(name, text, group, severity)
    experts[name] = ProtoExpert.new("cyclops." .. name, text, group, severity)
end
note("length.bad", "LENGTH is below 28 or above what came", expert.group.MALFORMED, expert.severity.ERROR)
note("flags.bad", "A flag set that is not legal", expert.group.MALFORMED, expert.severity.ERROR)
note("version.other", "Another version", expert.group.PROTOCOL, expert.severity.WARN)
note("trailing", "Bytes after LENGTH", expert.group.MALFORMED, expert.severity.WARN)
note("tlv.overrun", "A TLV runs past LENGTH", expert.group.MALFORMED, expert.severity.ERROR)
note("records.bad", "The data segment is not a list of records", expert.group.MALFORMED, expert.severity.ERROR)
note("crc.bad", "Wrong CRC", expert.group.CHECKSUM, expert.severity.ERROR)
note("seal.far", "Far from the numbers of this flow: damaged, or not of this connection", expert.group.CHECKSUM,
    expert.severity.WARN)
note("retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE)
list = {}
for _, value in pairs(experts) do list[#list + 1] = value end
cdp.experts = list

---------------------------------------------------------------------------------------------------- CRC32C and the seal

local CRC_TABLE = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        local low = band(crc, 1)
        crc = rshift(crc, 1)
        if low == 1 then crc = bxor(crc, 0x82F63B78) end
    end
    CRC_TABLE[byte] = u32(crc)
end

local function crc32c(text)
    local crc = 0xFFFFFFFF
    for at = 1, #text do
        crc = bxor(rshift(crc, 8), CRC_TABLE[band(bxor(crc, text:byte(at)), 0xFF)])
    end
    return u32(bxor(crc, 0xFFFFFFFF))
end

-- `text` with the bytes from `at` (counted from 0) on replaced by zeros, and without CE and HOP.
local function masked(text, at)
    local first = string.char(band(text:byte(1), 0xF8))
    return first .. text:sub(2, at) .. "\0\0\0\0" .. text:sub(at + 5)
end

---------------------------------------------------------------------------------------------------- flows

local flows = {}    -- by both ends: what the opens said, and the last numbers by direction
local verdicts = {} -- by frame: what was made of it when it was seen first

function cdp.init()
    flows, verdicts = {}, {}
end

-- The flow of a packet, and its direction in it.
local function find_flow(tvb)
    local to = tvb(1, 3):uint() * 65536 + tvb(8, 2):uint()
    local from = tvb(5, 3):uint() * 65536 + tvb(10, 2):uint()
    local key = string.format("%.0f-%.0f", math.min(to, from), math.max(to, from))
    flows[key] = flows[key] or { opens = {}, last = { {}, {} } }
    return flows[key], from < to and 1 or 2
end

-- Whether the high halves `a` and `b` belong to numbers less than 2^33 apart.
local function is_near(a, b)
    if not a or not b then return false end
    local apart = u32(a - b)
    return apart <= 1 or apart == 0xFFFFFFFF
end

-- Whether SYN and SYN|ACK were seen and agree on the option; `default` stands for its absence.
local function agreed(flow, option)
    local one, other = flow.opens[1], flow.opens[2]
    if not one or not other then return nil end
    return one[option], other[option]
end

-- true, false, or nil if nobody can tell.
local function is_sealed(flow)
    local one, other = agreed(flow, "integrity")
    if one then return one == 1 or other == 1 end
    if cdp.prefs.integrity == 1 then return true end
    if cdp.prefs.integrity == 2 then return false end
    return flow.sealed
end

-- Chooses between the reading with the seal undone and the one without it, and remembers both.
local function judge(flow, direction, wire, unsealed)
    local last = flow.last[direction]
    local sealed, text = is_sealed(flow), ""
    if sealed == nil then
        local as_sealed, as_plain = is_near(unsealed, last.unsealed), is_near(wire, last.wire)
        -- the same packet twice fits both readings
        if as_sealed ~= as_plain then sealed = as_sealed end
        flow.sealed = sealed
    end
    if sealed == nil then
        sealed, text = true, " (assumed: the capture has no SYN)"
    end
    local high = wire
    if sealed then high = unsealed end
    -- what was assumed is no measure for what comes
    local far = last.number ~= nil and not last.assumed and not is_near(high, last.number)
    last.wire, last.unsealed = wire, unsealed
    if not far then last.number, last.assumed = high, text ~= "" end
    return { high = high, sealed = sealed, text = text, far = far }
end

---------------------------------------------------------------------------------------------------- TLVs

-- The held numbers as ranges, relative and as low halves: "+1 (ffffffff), +3..+5 (00000001..00000003)"; those of a FARSACK
-- begin so much further on.
local function held_ranges(bitmap, ack, offset)
    local ranges, first = {}, nil
    local function close(last)
        first, last = first + (offset or 0), last + (offset or 0)
        local function low(i) return string.format("%08x", u32(ack + i)) end
        if first == last then
            ranges[#ranges + 1] = string.format("+%d (%s)", first, low(first))
        else
            ranges[#ranges + 1] = string.format("+%d..+%d (%s..%s)", first, last, low(first), low(last))
        end
        first = nil
    end
    for i = 0, #bitmap * 8 - 1 do
        local byte = bitmap:byte(math.floor(i / 8) + 1)
        if band(byte, 2 ^ (7 - i % 8)) ~= 0 then
            first = first or i + 1
        elseif first then
            close(i)
        end
    end
    if first then close(#bitmap * 8) end
    return table.concat(ranges, ", ")
end

local readers = {} -- by type: adds the value to the tree and returns a text for its line

local function plain(key, name)
    return function(tree, value)
        tree:add(f[key], value)
        return name and name[value:uint()] or tostring(value:uint())
    end
end
local function bytes(key)
    return function(tree, value)
        tree:add(f[key], value)
        return value:len() .. " bytes"
    end
end
local function numbers(one, other)
    return function(tree, value)
        local half = value:len() / 2
        tree:add(f[one], value(0, half))
        tree:add(f[other], value(half, half))
        return string.format("%d, %d", value(0, half):uint(), value(half, half):uint())
    end
end

readers[2], readers[6] = bytes("versions"), bytes("cookie")
readers[3], readers[4], readers[5] = plain("mss"), plain("service", SERVICES), plain("integrity", INTEGRITIES)
readers[128], readers[131] = plain("wscale"), plain("message")
readers[132] = numbers("keepalive_interval", "keepalive_expiry")
readers[145] = numbers("time_own", "time_echoed")
readers[146], readers[148] = plain("cecount"), plain("discarded")
readers[1] = function(tree, value, context)
    tree:add(f.crc, value)
    local right = crc32c(masked(context.text, context.at + 2)) == value:uint()
    if not right then tree:add_proto_expert_info(experts["crc.bad"]) end
    return right and "right" or "WRONG"
end
readers[134] = function(tree, value)
    for at = 0, value:len() - 3, 3 do tree:add(f.ioset_node, value(at, 3)) end
    return math.floor(value:len() / 3) .. " nodes"
end
readers[144] = function(tree, value, context)
    tree:add(f.sack, value)
    local held = held_ranges(value:raw(), context.ack)
    tree:add(f.sack_held, value, held):set_generated()
    return held
end
readers[149] = function(tree, value, context)
    tree:add(f.far_offset, value(0, 4))
    local bitmap, offset = value(4), value(0, 4):uint()
    tree:add(f.far, bitmap)
    local held = held_ranges(bitmap:raw(), context.ack, offset)
    tree:add(f.far_held, bitmap, held):set_generated()
    return held
end
readers[147] = function(tree, value, context)
    tree:add(f.reason, value(0, 2))
    local text = REASONS[value(0, 2):uint()] or "none (unknown code)"
    if value:len() >= 4 then
        tree:add(f.reason_detail, value(2, 2))
        text = text .. ", detail " .. value(2, 2):uint()
    end
    context.reason = text
    return text
end

local LENGTHS = { [1] = 4, [3] = 2, [4] = 1, [5] = 1, [128] = 1, [131] = 4, [132] = 4, [145] = 8, [146] = 4, [148] = 4 }
local function is_length_right(kind, length)
    if LENGTHS[kind] then return length == LENGTHS[kind] end
    if kind == 147 then return length == 2 or length == 4 end
    if kind == 149 then return length >= 12 and length % 8 == 4 end
    return length > 0
end

local function add_tlvs(tvb, tree, length, context)
    local at = HEADER
    while at < length do
        local kind = tvb(at, 1):uint()
        if kind == 0 then
            tree:add(f.pad, tvb(at, length - at))
            return
        end
        local value_length = at + 1 < length and tvb(at + 1, 1):uint() or 0
        local size = math.ceil((2 + value_length) / 4) * 4
        if at + size > length then
            tree:add_proto_expert_info(experts["tlv.overrun"])
            return
        end
        local branch = tree:add(cdp, tvb(at, size), type_name(kind))
        branch:add(f.tlv_type, tvb(at, 1))
        branch:add(f.tlv_length, tvb(at + 1, 1))
        context.at, context[kind] = at, true
        if value_length > 0 then
            local value, text = tvb(at + 2, value_length), nil
            if readers[kind] and is_length_right(kind, value_length) then
                text = readers[kind](branch, value, context)
            else
                branch:add(f.tlv_value, value)
                text = value_length .. " bytes"
            end
            if kind == 4 or kind == 5 then context[TYPES[kind]:lower()] = value:uint() end
            branch:append_text(": " .. text)
        end
        at = at + size
    end
end

---------------------------------------------------------------------------------------------------- data

-- The records of a data segment as { at, length, more }, or nil if it is no list of them.
local function split_records(tvb, length)
    local records, at = {}, HEADER
    while at < length do
        if at + 2 > length then return nil end
        local head = tvb(at, 2):uint()
        local size, more = head % 0x8000, head >= 0x8000
        -- MORE without a length: all that follows
        if head == 0x8000 then size = length - at - 2 end
        if at + 2 + size > length or (more and (size == 0 or at + 2 + size < length)) then return nil end
        records[#records + 1] = { at = at, size = size, more = more }
        at = at + 2 + size
    end
    return #records > 0 and records or nil
end

local function add_data(tvb, tree, length, flow, ends_message)
    if length > HEADER then tree:add(f.payload, tvb(HEADER, length - HEADER)) end
    if ends_message then return "" end
    local one, other = agreed(flow, "coalesce")
    local known = one ~= nil
    -- in stream service COALESCE is ignored; without the open a well-formed list is taken for one
    if known and not (one and other and agreed(flow, "service") ~= 2) then return "" end
    local records = split_records(tvb, length)
    if not records then
        if known then tree:add_proto_expert_info(experts["records.bad"]) end
        return ""
    end
    for i, record in ipairs(records) do
        local title = string.format("Record %d: %d bytes%s", i, record.size, record.more and ", goes on" or "")
        local branch = tree:add(cdp, tvb(record.at, 2 + record.size), title)
        branch:add(f.record_more, tvb(record.at, 2))
        branch:add(f.record_length, tvb(record.at, 2), record.size)
        if record.size > 0 then branch:add(f.record_data, tvb(record.at + 2, record.size)) end
    end
    return string.format(" Records=%d%s", #records, known and "" or "?")
end

---------------------------------------------------------------------------------------------------- the packet

local function flag_names(flags)
    local names = {}
    for _, flag in ipairs(FLAGS) do
        if band(flags, flag[1]) ~= 0 then names[#names + 1] = flag[2] end
    end
    return #names > 0 and table.concat(names, "|") or "none"
end

local function add_addresses(tvb, tree, pinfo)
    for _, end_ in ipairs { { "dst", 1, 8 }, { "src", 5, 10 } } do
        local name, node, port = end_[1], end_[2], end_[3]
        tree:add(f[name .. "_node"], tvb(node, 3))
        tree:add(f[name .. "_port"], tvb(port, 2))
        tree:add(f.node, tvb(node, 3)):set_hidden()
        tree:add(f.port, tvb(port, 2)):set_hidden()
    end
    pinfo.src_port, pinfo.dst_port = tvb(10, 2):uint(), tvb(8, 2):uint()
end

local function add_header(tvb, tree, pinfo)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.rtx, tvb(0, 1))
    tree:add(f.ce, tvb(0, 1))
    tree:add(f.hop, tvb(0, 1))
    add_addresses(tvb, tree, pinfo)
    local flags = tvb(4, 1):uint()
    local branch = tree:add(f.flags, tvb(4, 1))
    branch:append_text(" " .. flag_names(flags))
    branch:add(f.flags_names, tvb(4, 1), flag_names(flags)):set_generated()
    for _, flag in ipairs(FLAGS) do branch:add(f["flags_" .. flag[2]:lower()], tvb(4, 1)) end
    if not LEGAL[flags] then branch:add_proto_expert_info(experts["flags.bad"]) end
    tree:add(f.length, tvb(12, 2))
    tree:add(f.window, tvb(14, 2))
    tree:add(f.seq_wire, tvb(16, 8))
    tree:add(f.ack, tvb(24, 4))
    if band(tvb(0, 1):uint(), 0x08) ~= 0 then tree:add_proto_expert_info(experts["retransmission"]) end
    return flags
end

-- SYN, SYN|ACK and echo-form RST are never sealed; everything else is if the connection is.
local function may_be_sealed(flags)
    return band(flags, 0x02) == 0 and band(flags, 0x3F) ~= 0x04
end

-- Undoes the seal, once for each frame, and shows number and verdict. Returns the number as text.
local function add_number(tvb, tree, pinfo, flags, flow, direction, checksum)
    local high, low = tvb(16, 4):uint(), tvb(20, 4):uint()
    local verdict = verdicts[pinfo.number]
    if not verdict then
        if may_be_sealed(flags) then
            verdict = judge(flow, direction, high, bxor(high, checksum) % 0x100000000)
        else
            verdict = { high = high, sealed = false, text = " (packets of this kind never are)" }
            if band(flags, 0x02) ~= 0 then flow.last[direction] = { number = high } end
        end
        verdicts[pinfo.number] = verdict
    end
    local text = string.format("%08x%08x", verdict.high, low)
    tree:add(f.checksum, tvb(16, 4), checksum):set_generated()
    tree:add(f.seq, tvb(16, 8), UInt64(low, verdict.high)):set_generated()
    local seal = (verdict.sealed and "sealed" or "not sealed") .. verdict.text .. ", seq=" .. text
    tree:add(f.seal, tvb(16, 4), seal):set_generated()
    if verdict.far then tree:add_proto_expert_info(experts["seal.far"]) end
    return text
end

-- What an open says about the connection; only remembered, once the TLVs are read.
local function remember_open(flow, flags, direction, context)
    if band(flags, 0x02) == 0 then return end
    flow.opens[direction] = {
        integrity = context.integrity or 1, service = context.service or 1, coalesce = context[130] == true,
    }
end

-- The number that an echo-form RST refuses: SEQ, with the echoed checksum undone where the connection is sealed.
local function add_echo(tvb, tree, flow)
    local high, low = tvb(16, 4):uint(), tvb(20, 4):uint()
    local last = flow.last
    local undone = u32(bxor(high, tvb(24, 4):uint()))
    local was_sealed = is_near(undone, last[1].number) or is_near(undone, last[2].number)
    local refused = was_sealed and undone or high
    tree:add(f.echo_seq, tvb(16, 8), UInt64(low, refused)):set_generated()
end

local function dissect_packet(tvb, pinfo, tree, length)
    local flags = add_header(tvb, tree, pinfo)
    local flow, direction = find_flow(tvb)
    local text = tvb:raw(0, length)
    local checksum = crc32c(masked(text, 16))
    local context = { text = text, ack = tvb(24, 4):uint() }
    local extra
    local seq = add_number(tvb, tree, pinfo, flags, flow, direction, checksum)
    if band(flags, 0x08) ~= 0 then
        extra = add_data(tvb, tree, length, flow, band(flags, 0x80) ~= 0)
    else
        add_tlvs(tvb, tree, length, context)
        if not pinfo.visited then remember_open(flow, flags, direction, context) end
        if band(flags, 0x3F) == 0x04 then add_echo(tvb, tree, flow) end
        extra = context.reason and " Reason=" .. context.reason or ""
    end
    local size = band(flags, 0x08) ~= 0 and string.format(" Len=%d", length - HEADER) or ""
    local repeated = band(tvb(0, 1):uint(), 0x08) ~= 0 and " [again]" or ""
    pinfo.cols.info = string.format("%d → %d [%s]%s Seq=%s Ack=%08x Win=%d%s%s", tvb(10, 2):uint(), tvb(8, 2):uint(),
        flag_names(flags), repeated, seq, tvb(24, 4):uint(), tvb(14, 2):uint(), size, extra)
    tree:append_text(", " .. flag_names(flags) .. ", Seq: " .. seq)
end

function cdp.dissector(tvb, pinfo, root)
    if tvb:len() < HEADER then return 0 end
    pinfo.cols.protocol = "CDP"
    local tree = root:add(cdp, tvb())
    if math.floor(tvb(0, 1):uint() / 16) ~= 1 then
        -- bytes 0..11 mean the same in every version
        tree:add(f.version, tvb(0, 1))
        add_addresses(tvb, tree, pinfo)
        tree:add_proto_expert_info(experts["version.other"])
        pinfo.cols.info = "CDP of version " .. math.floor(tvb(0, 1):uint() / 16)
        return tvb:len()
    end
    local length = tvb(12, 2):uint()
    if length < HEADER or length > tvb:reported_len() then
        add_header(tvb, tree, pinfo)
        tree:add_proto_expert_info(experts["length.bad"])
        pinfo.cols.info = "LENGTH " .. length .. " where " .. tvb:reported_len() .. " bytes came"
        return tvb:len()
    end
    if length > tvb:len() then
        add_header(tvb, tree, pinfo)
        tree:add(f.seal, tvb(16, 4), "unknown: the capture is cut short"):set_generated()
        return tvb:len()
    end
    tree:set_len(length)
    dissect_packet(tvb, pinfo, tree, length)
    if tvb:len() > length then
        root:add(f.trailer, tvb(length))
        -- allowed only where an Ethernet frame is padded to its minimum
        if tvb:len() > 46 or pinfo.port_type == 3 then tree:add_proto_expert_info(experts["trailing"]) end
    end
    return tvb:len()
end

---------------------------------------------------------------------------------------------------- registration

DissectorTable.get("udp.port"):add(UDP_PORT, cdp)
DissectorTable.get("ethertype"):add(ETHERTYPE, cdp)

-- On any other UDP port: version 1, LENGTH exact, a legal flag set, possible addresses, CE and HOP as they may be.
cdp:register_heuristic("udp", function(tvb, pinfo, tree)
    if tvb:len() < HEADER or math.floor(tvb(0, 1):uint() / 16) ~= 1 then return false end
    if tvb(12, 2):uint() ~= tvb:reported_len() or not LEGAL[tvb(4, 1):uint()] then return false end
    for _, at in ipairs { 1, 5 } do
        local node = tvb(at, 3):uint()
        if node == 0 or node == 0xFFFFFF then return false end
    end
    if tvb(8, 2):uint() == 0 or tvb(10, 2):uint() == 0 then return false end
    -- before the ports of pinfo are those of CDP
    pinfo.conversation = cdp
    cdp.dissector(tvb, pinfo, tree)
    return true
end)
