//! Owns: the form of a detector's counters in EVE's statistics and in the summary.
//! Does not: count.

use ringtap_detect::Counters;
use serde_json::{Value, json};

/// Counters by the names of Suricata's schema where it has the same, else under `ringtap`.
pub(crate) fn object(counters: &Counters) -> Value {
    json!({
        "decoder": { "pkts": counters.packets, "bytes": counters.bytes, "invalid": counters.invalid },
        "defrag": { "ipv4": { "fragments": counters.defrag.fragments, "reassembled": counters.defrag.reassembled } },
        "flow": {
            "total": counters.flows.begun,
            "active": counters.flows_now,
            "emerg_mode_entered": counters.flows.emergencies,
        },
        "tcp": {
            "invalid_checksum": counters.bad_checksums,
            "reassembly_gap": counters.gaps,
            "segment_memcap_drop": counters.segments_refused,
            "segments_discarded": counters.segments_discarded,
        },
        "detect": {
            "alert": counters.alerts,
            "alerts_suppressed": counters.suppressed,
            "alert_queue_overflow": counters.alerts_over,
        },
        "ringtap": {
            "budget_hits": counters.budget_hits,
            "passed": counters.passed,
            "shed": counters.shed,
            "tunnelled": counters.tunnelled,
            "expressions_given_up": counters.expressions_given_up,
            "stream_chunks": counters.chunks,
            "side_chunks": counters.side_chunks,
            "segments_disordered": counters.disordered,
            "early_steps": counters.early_steps,
            "early_bytes": counters.early_bytes_now,
            "flows_behind": counters.flows_behind,
            "waited_bytes": counters.waited_bytes,
            "backlog_pushes": counters.backlog_pushes,
            "windows_evicted": counters.windows_evicted,
            "flows_evicted": counters.flows.evicted,
            "flows_timed_out": counters.flows.timed_out,
            "flows_without_handshake": counters.flows_without_handshake,
            "flows_one_sided": counters.flows_one_sided,
            "fragments_no_memory": counters.defrag.no_memory,
            "fragmented_evicted": counters.defrag.evicted,
            "fragmented_timed_out": counters.defrag.timed_out,
            "thresholds_evicted": counters.thresholds_evicted,
            "host_bits_evicted": counters.host_bits_evicted,
            "flow_ints_evicted": counters.flow_ints_evicted,
            "datasets_evicted": counters.datasets_evicted,
            "dialogs_evicted": counters.dialogs_evicted,
            "handshakes_evicted": counters.handshakes_evicted,
            "announced_evicted": counters.announced_evicted,
            "values_left_out": counters.values_left_out,
            "tagged": counters.tagged,
            "tags_evicted": counters.tags_evicted,
            "http_transactions": counters.http.transactions,
            "http_evicted": counters.http.evicted,
            "http_refused_bytes": counters.http.refused_bytes,
            "http_not_decoded": counters.http.not_decoded,
        },
    })
}
