//! How often a card's receive queues have interrupted, by /proc/interrupts (proc(5)).
//!
//! Owns the drivers' ways of naming their vectors.

/// Interrupts of all receive vectors of `interface` since boot; `None` where it has none of its own (veth).
pub(crate) fn received(interface: &str) -> Option<u64> {
    let device = std::fs::read_link(format!("/sys/class/net/{interface}/device")).ok();
    let device = device.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    sum(&std::fs::read_to_string("/proc/interrupts").ok()?, interface, device)
}

/// vfio-pci names vectors `vfio-msix[0](0000:02:00.0)` after the card; each is a receive queue's.
///
/// igb and e1000e name vectors `eth1-TxRx-0` and `eth1-rx-0`, virtio_net `virtio1-input.0` after its device. A vector of
/// the bare name is the link's, or all there is when there is no other.
fn sum(interrupts: &str, interface: &str, device: Option<&str>) -> Option<u64> {
    let (mut queues, mut bare) = (None, None);
    for line in interrupts.lines() {
        let mut words = line.split_whitespace().skip(1);
        let count: u64 = words.by_ref().map_while(|word| word.parse::<u64>().ok()).sum();
        let Some(name) = line.split_whitespace().last() else { continue };
        let of_queue =
            name.strip_prefix(interface).is_some_and(|rest| {
                let rest = rest.to_ascii_lowercase();
                rest.starts_with("-txrx-") || rest.starts_with("-rx-")
            }) || device.and_then(|device| name.strip_prefix(device)).is_some_and(|rest| rest.starts_with("-input."))
                || name.starts_with("vfio-msix[") && name.ends_with(&format!("({interface})"));
        if of_queue {
            *queues.get_or_insert(0) += count;
        } else if name == interface {
            *bare.get_or_insert(0) += count;
        }
    }
    queues.or(bare)
}

#[cfg(test)]
mod tests {
    use super::sum;

    const TEXT: &str = "            CPU0       CPU1
  24:          5          7  PCI-MSIX-0000:01:00.0   0-edge      eth1
  25:         10         20  PCI-MSIX-0000:01:00.0   1-edge      eth1-TxRx-0
  26:          1          2  PCI-MSIX-0000:01:00.0   2-edge      eth1-TxRx-1
  27:        100        200  PCI-MSIX-0000:02:00.0   1-edge      eth0-rx-0
  28:        400        400  PCI-MSIX-0000:02:00.0   1-edge      eth0-tx-0
  29:          3          4  PCI-MSI-0000:03:00.0   0-edge      virtio1-input.0
  30:          9          9  PCI-MSI-0000:03:00.0   0-edge      virtio1-output.0
  31:          6          1  PCI-MSIX-0000:04:00.0   0-edge      vfio-msix[0](0000:04:00.0)
 NMI:          0          0   Non-maskable interrupts
 ERR:          0
";

    #[test]
    fn receive_vectors_of_each_driver_are_told_from_the_others() {
        assert_eq!(sum(TEXT, "eth1", Some("0000:01:00.0")), Some(33));
        assert_eq!(sum(TEXT, "eth0", None), Some(300));
        assert_eq!(sum(TEXT, "eth2", Some("virtio1")), Some(7));
        assert_eq!(sum(TEXT, "0000:04:00.0", None), Some(7));
        assert_eq!(sum(TEXT, "eth3", None), None);
        assert_eq!(sum(&TEXT.replace("eth1-TxRx", "other"), "eth1", None), Some(12), "one vector for everything");
    }
}
