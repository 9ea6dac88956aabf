//! Owns: the anomalies that decoding, defragmentation and stream tracking find, under the names that `decode-event` and
//! `stream-event` rules use, and a set of them.
//! Does not: find them.

macro_rules! events {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// One anomaly.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Event { $(#[doc = $text] $name),* }

        impl Event {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name that rules and EVE use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

events! {
    EthernetTooSmall = "ethernet.pkt_too_small",
    VlanTooSmall = "vlan.header_too_small",
    Ipv4TooSmall = "ipv4.pkt_too_small",
    Ipv4HeaderTooSmall = "ipv4.hlen_too_small",
    Ipv4LengthSmallerThanHeader = "ipv4.iplen_smaller_than_hlen",
    Ipv4Truncated = "ipv4.trunc_pkt",
    Ipv4WrongVersion = "ipv4.wrong_ip_version",
    Ipv4OptionInvalid = "ipv4.opt_invalid_len",
    Ipv4BadChecksum = "ipv4.bad_checksum",
    Ipv4FragmentTooLarge = "ipv4.frag_pkt_too_large",
    Ipv4FragmentOverlap = "ipv4.frag_overlap",
    Ipv4FragmentIgnored = "ipv4.frag_ignored",
    Ipv6TooSmall = "ipv6.pkt_too_small",
    Ipv6Truncated = "ipv6.trunc_pkt",
    Ipv6WrongVersion = "ipv6.wrong_ip_version",
    Ipv6TruncatedExtension = "ipv6.trunc_exthdr",
    Ipv6UselessFragment = "ipv6.exthdr_useless_fh",
    Ipv6DuplicateFragment = "ipv6.exthdr_dupl_fh",
    Ipv6DuplicateRouting = "ipv6.exthdr_dupl_rh",
    Ipv6DuplicateHopByHop = "ipv6.exthdr_dupl_hh",
    Ipv6DuplicateDestination = "ipv6.exthdr_dupl_dh",
    Ipv6HopByHopUnknownOption = "ipv6.hopopts_unknown_opt",
    Ipv6DestinationUnknownOption = "ipv6.dstopts_unknown_opt",
    Ipv6HopByHopOnlyPadding = "ipv6.hopopts_only_padding",
    Ipv6DestinationOnlyPadding = "ipv6.dstopts_only_padding",
    Ipv6FragmentTooLarge = "ipv6.frag_pkt_too_large",
    Ipv6FragmentOverlap = "ipv6.frag_overlap",
    Ipv6FragmentInvalidLength = "ipv6.frag_invalid_length",
    Ipv6FragmentIgnored = "ipv6.frag_ignored",
    Icmpv4TooSmall = "icmpv4.pkt_too_small",
    Icmpv6TooSmall = "icmpv6.pkt_too_small",
    TcpTooSmall = "tcp.pkt_too_small",
    TcpHeaderTooSmall = "tcp.hlen_too_small",
    TcpInvalidOptionLength = "tcp.invalid_optlen",
    TcpOptionInvalid = "tcp.opt_invalid_len",
    TcpOptionDuplicate = "tcp.opt_duplicate",
    UdpTooSmall = "udp.pkt_too_small",
    UdpLengthTooSmall = "udp.hlen_too_small",
    UdpLengthInvalid = "udp.hlen_invalid",
    SctpTooSmall = "sctp.pkt_too_small",
    IgmpTooSmall = "igmp.pkt_too_small",
    Igmp3TooSmall = "igmp.v3_pkt_too_small",
    IgmpMalformed = "igmp.malformed",
    GreTooSmall = "gre.pkt_too_small",
    StreamGap = "stream.reassembly_seq_gap",
    StreamOverlapDifferent = "stream.reassembly_overlap_different_data",
    StreamRstBadWindow = "stream.rst_invalid_ack",
    StreamOutsideWindow = "stream.est_packet_out_of_window",
    StreamInvalidAck = "stream.pkt_invalid_ack",
    StreamInvalidTimestamp = "stream.pkt_invalid_timestamp",
    StreamNoAck = "stream.pkt_no_ack",
    StreamSignature = "stream.pkt_unexpected_signature",
    StreamSynData = "stream.3whs_syn_data",
    StreamSynAckWrongAck = "stream.3whs_synack_with_wrong_ack",
    StreamHandshakeWrongAck = "stream.3whs_wrong_seq_wrong_ack",
    StreamSuspectedReset = "stream.suspected_rst_inject",
    StreamSynAgain = "stream.est_syn_resend",
    StreamSynAckAgain = "stream.est_synack_resend",
}

impl Event {
    /// The event that `decode-event:NAME` (or `stream-event:NAME`, without its `stream.`) means.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|event| event.name() == name)
    }

    /// Which part of the sensor finds it, as EVE's `anomaly.type` has it.
    #[must_use]
    pub fn kind(self) -> &'static str {
        if self.name().starts_with("stream.") { "stream" } else { "decode" }
    }
}

/// A set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSet(u64);

impl EventSet {
    /// Adds one.
    #[inline]
    pub fn add(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    /// Whether `event` is in the set.
    #[inline]
    #[must_use]
    pub fn has(self, event: Event) -> bool {
        self.0 & 1 << event as u8 != 0
    }

    /// Whether it is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in the set, in the order of their definition.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Event> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            // Few packets have any: bits are looked for, not asked for one by one.
            let event = *Event::ALL.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(event)
        })
    }
}

const _: () = assert!(Event::ALL.len() <= 64);
