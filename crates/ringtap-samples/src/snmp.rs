//! Owns: SNMP messages written element by element, in versions 1, 2c and 3 without security.
//! Does not: use Ringtap's own encoder, so that both are held against tshark.

/// An element of BER with a definite length, in as few bytes as can be.
#[must_use]
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        len @ 0..=0x7f => out.push(len as u8),
        len @ 0x80..=0xff => out.extend([0x81, len as u8]),
        len => out.extend([0x82, (len >> 8) as u8, len as u8]),
    }
    out.extend(content);
    out
}

/// A signed number with this tag.
#[must_use]
pub fn number(tag: u8, value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let spare = |at: usize| {
        let fill = if bytes[at + 1] & 0x80 == 0 { 0 } else { 0xff };
        bytes[at] == fill
    };
    let first = (0..7).find(|&at| !spare(at)).unwrap_or(7);
    element(tag, &bytes[first..])
}

/// An object identifier.
#[must_use]
pub fn oid(arcs: &[u32]) -> Vec<u8> {
    let mut content = Vec::new();
    let first = arcs.get(1).map_or(0, |second| arcs[0] * 40 + second);
    for arc in std::iter::once(first).chain(arcs.iter().skip(2).copied()) {
        for shift in (1..5).rev().filter(|shift| arc >> (7 * shift) != 0) {
            content.push(0x80 | (arc >> (7 * shift)) as u8);
        }
        content.push(arc as u8 & 0x7f);
    }
    element(6, &content)
}

/// A value of each type that a varbind can have (RFC 2578), and the exceptions (RFC 3416).
#[must_use]
pub fn values() -> Vec<Vec<u8>> {
    vec![
        number(2, -1),
        number(2, i64::from(i32::MAX)),
        number(2, i64::from(i32::MIN)),
        number(2, 0),
        element(4, b"GigabitEthernet0/1"),
        element(4, &[0xde, 0xad, 0, 0xff]),
        oid(&[1, 3, 6, 1, 4, 1, 99_999, 4_294_967_295, 0]),
        element(0x40, &[192, 0, 2, 77]),
        number(0x41, 0xffff_ffff),
        number(0x41, 0),
        number(0x42, 1234),
        number(0x43, 0x7fff_ffff),
        number(0x46, 0x0123_4567_89ab_cdef),
        element(0x46, &[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        element(5, b""),
    ]
}

/// Varbinds with these values below ifEntry.
#[must_use]
pub fn varbinds(values: &[Vec<u8>]) -> Vec<u8> {
    let one = |(index, value): (usize, &Vec<u8>)| {
        let name = oid(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1 + index as u32, 300 + index as u32]);
        element(0x30, &[name, value.clone()].concat())
    };
    element(0x30, &values.iter().enumerate().map(one).collect::<Vec<_>>().concat())
}

/// A PDU of RFC 3416: request-id, error status and index (or repeaters and repetitions), varbinds.
#[must_use]
pub fn pdu(tag: u8, request: i32, status: [i64; 2], list: &[u8]) -> Vec<u8> {
    element(tag, &[number(2, request.into()), number(2, status[0]), number(2, status[1]), list.to_vec()].concat())
}

/// A message with a community: version 0 is v1, 1 is v2c.
#[must_use]
pub fn message(version: i64, community: &[u8], pdu: &[u8]) -> Vec<u8> {
    element(0x30, &[number(2, version), element(4, community), pdu.to_vec()].concat())
}

/// A trap of version 1.
#[must_use]
pub fn v1_trap(generic: i64, specific: i64, list: &[u8]) -> Vec<u8> {
    let parts = [
        oid(&[1, 3, 6, 1, 4, 1, 8072, 3]),
        element(0x40, &[192, 0, 2, 1]),
        number(2, generic),
        number(2, specific),
        number(0x43, 123_456),
        list.to_vec(),
    ];
    message(0, b"public", &element(0xa4, &parts.concat()))
}

/// Varbinds of a notification of version 2 and later, with sysUpTime and snmpTrapOID (linkDown) before these values.
#[must_use]
pub fn notification(values: &[Vec<u8>]) -> Vec<u8> {
    let varbind = |name: &[u32], value: Vec<u8>| element(0x30, &[oid(name), value].concat());
    let mut list = vec![
        varbind(&[1, 3, 6, 1, 2, 1, 1, 3, 0], number(0x43, 4711)),
        varbind(&[1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0], oid(&[1, 3, 6, 1, 6, 3, 1, 1, 5, 3])),
    ];
    list.extend(
        values
            .iter()
            .enumerate()
            .map(|(index, value)| varbind(&[1, 3, 6, 1, 2, 1, 2, 2, 1, 1 + index as u32, 9], value.clone())),
    );
    element(0x30, &list.concat())
}

/// A message of version 3 without security (RFC 3412, RFC 3414).
#[must_use]
pub fn v3(id: i32, flags: u8, user: &[u8], pdu: &[u8]) -> Vec<u8> {
    const ENGINE: &[u8] = &[0x80, 0, 0x1f, 0x88, 4, b't', b'e', b's', b't'];
    let global = [number(2, id.into()), number(2, 65_507), element(4, &[flags]), number(2, 3)].concat();
    let usm =
        [element(4, ENGINE), number(2, 3), number(2, 99), element(4, user), element(4, b""), element(4, b"")].concat();
    let scoped = element(0x30, &[element(4, ENGINE), element(4, b"context"), pdu.to_vec()].concat());
    element(0x30, &[number(2, 3), element(0x30, &global), element(4, &element(0x30, &usm)), scoped].concat())
}

/// Messages of every version and kind.
#[must_use]
pub fn messages() -> Vec<Vec<u8>> {
    let (all, nothing) = (values(), vec![element(5, b"")]);
    let mut messages = Vec::new();
    for tag in [0xa0, 0xa1, 0xa2, 0xa3] {
        // Counter64 is not in version 1.
        let of_v1: Vec<_> = all.iter().filter(|value| value[0] != 0x46).cloned().collect();
        let list = varbinds(if tag < 0xa2 { &nothing } else { &of_v1 });
        messages.push(message(0, b"public", &pdu(tag, 70_000 + i32::from(tag), [0, 0], &list)));
    }
    messages.push(message(0, b"public", &pdu(0xa2, 5, [2, 1], &varbinds(&nothing))));
    for generic in 0..=6 {
        messages.push(v1_trap(generic, if generic == 6 { 42 } else { 0 }, &varbinds(&all[..3])));
    }
    messages.push(v1_trap(6, 1_000_000, &varbinds(&[])));
    for tag in [0xa0, 0xa1, 0xa2, 0xa3, 0xa5] {
        let list = varbinds(if matches!(tag, 0xa2 | 0xa3) { &all } else { &nothing });
        let status = if tag == 0xa5 { [0, 20] } else { [0, 0] };
        messages.push(message(1, b"a much longer community than most", &pdu(tag, -2, status, &list)));
    }
    for exception in [0x80, 0x81, 0x82] {
        messages.push(message(
            1,
            b"public",
            &pdu(0xa2, 6, [0, 0], &varbinds(&[element(exception, b""), number(2, 1)])),
        ));
    }
    for request in 0..40 {
        let tag = if request % 2 == 0 { 0xa7 } else { 0xa6 };
        let chosen: Vec<_> = all.iter().cycle().skip(request).take(request % 7).cloned().collect();
        messages.push(message(1, b"public", &pdu(tag, 1 << (request % 31), [0, 0], &notification(&chosen))));
        messages.push(v3(
            request as i32,
            if tag == 0xa6 { 4 } else { 0 },
            b"somebody",
            &pdu(tag, request as i32, [0, 0], &notification(&chosen)),
        ));
    }
    for tag in [0xa0, 0xa1, 0xa2, 0xa3, 0xa5, 0xa8] {
        messages.push(v3(77, 4, b"", &pdu(tag, 77, [0, 0], &varbinds(&nothing))));
    }
    // Long lengths.
    messages.push(message(1, b"public", &pdu(0xa7, 9, [0, 0], &notification(&[element(4, &[b'x'; 900])]))));
    messages
}
