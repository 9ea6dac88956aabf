//! Varbinds: names and their values (RFC 3416 §3), borrowed from the message.
//!
//! Owns their types and the walk over a list. What they are called is `names`'.

use std::net::Ipv4Addr;

use crate::ber;
use crate::oid::Oid;

/// A list of varbinds, read one by one. What follows a varbind that can't be read is lost; [`Varbinds::is_damaged`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Varbinds<'a>(&'a [u8]);

/// A name and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Varbind<'a> {
    /// The name.
    pub name: Oid<'a>,
    /// The value.
    pub value: Value<'a>,
}

/// The value of a varbind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// INTEGER, Integer32.
    Integer(i64),
    /// OCTET STRING.
    OctetString(&'a [u8]),
    /// NULL.
    Null,
    /// OBJECT IDENTIFIER.
    ObjectId(Oid<'a>),
    /// IpAddress.
    IpAddress(Ipv4Addr),
    /// Counter32.
    Counter32(u64),
    /// Gauge32, Unsigned32.
    Gauge32(u64),
    /// TimeTicks: hundredths of a second.
    TimeTicks(u64),
    /// Counter64.
    Counter64(u64),
    /// Opaque: anything, as BER.
    Opaque(&'a [u8]),
    /// noSuchObject, noSuchInstance, endOfMibView: tags 0x80 to 0x82.
    Exception(u8),
    /// A type that SNMP does not have, or bytes that its type does not allow.
    Other {
        /// Its tag.
        tag: u8,
        /// Its bytes.
        content: &'a [u8],
    },
}

impl<'a> Varbinds<'a> {
    /// The content of variable-bindings.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The list's bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The varbinds that can be read, in order.
    pub fn iter(self) -> impl Iterator<Item = Varbind<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || take(&mut rest))
    }

    /// The first one and the list after it; `None` when it is not there or can't be read.
    pub fn split_first(self) -> Option<(Varbind<'a>, Self)> {
        let mut rest = self.0;
        take(&mut rest).map(|first| (first, Self(rest)))
    }

    /// Whether something in it can't be read.
    pub fn is_damaged(self) -> bool {
        let mut rest = self.0;
        while take(&mut rest).is_some() {}
        !rest.is_empty()
    }
}

/// Takes one varbind off; leaves `rest` where it is when that can't be read.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Varbind<'a>> {
    let mut input = *rest;
    let mut varbind = ber::expect(&mut input, ber::SEQUENCE, "a varbind").ok()?;
    let name = Oid::new(ber::expect(&mut varbind, ber::OBJECT_ID, "a name").ok()?)?;
    let value = Value::new(ber::next(&mut varbind, "a value").ok()?);
    *rest = input;
    Some(Varbind { name, value })
}

impl<'a> Value<'a> {
    fn new(element: ber::Element<'a>) -> Self {
        let (tag, content) = (element.tag, element.content);
        let number = |kind: fn(u64) -> Self| ber::unsigned(content).map(kind);
        let read = match tag {
            ber::INTEGER => ber::signed(content).map(Self::Integer),
            ber::OCTET_STRING => Some(Self::OctetString(content)),
            ber::NULL => Some(Self::Null),
            ber::OBJECT_ID => Oid::new(content).map(Self::ObjectId),
            ber::IP_ADDRESS => <[u8; 4]>::try_from(content).ok().map(|bytes| Self::IpAddress(bytes.into())),
            ber::COUNTER32 => number(Self::Counter32),
            ber::GAUGE32 => number(Self::Gauge32),
            ber::TIME_TICKS => number(Self::TimeTicks),
            ber::COUNTER64 => number(Self::Counter64),
            ber::OPAQUE => Some(Self::Opaque(content)),
            0x80..=0x82 => Some(Self::Exception(tag)),
            _ => None,
        };
        read.unwrap_or(Self::Other { tag, content })
    }
}
