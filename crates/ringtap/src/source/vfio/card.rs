//! The Intel gigabit cards 82576 and 82574 as their data sheets describe them: what is written to which register, and when.
//!
//! Owns set-up, interrupt masks and counters. Rings are in sys/card_ring. Register and section names are those of the "Intel 82576EB
//! Gigabit Ethernet Controller Datasheet" and the "Intel 82574 GbE Controller Family Datasheet": chapter 4 is initialization, 7.1
//! reception, 7.2 transmission, 7.3 (82576) and 7.4 (82574) interrupts, 8 (82576) and 10 (82574) the registers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::sys::card_ring::DESCRIPTOR;
use crate::sys::vfio::VfioDevice;

/// General registers (82576: 8.2, 82574: 10.2.2).
mod general {
    pub(super) const CTRL: usize = 0x0000;
    pub(super) const CTRL_ASDE: u32 = 1 << 5;
    pub(super) const CTRL_SLU: u32 = 1 << 6;
    pub(super) const CTRL_FRCSPD: u32 = 1 << 11;
    pub(super) const CTRL_FRCDPX: u32 = 1 << 12;
    pub(super) const CTRL_RST: u32 = 1 << 26;
    pub(super) const STATUS: usize = 0x0008;
    pub(super) const EECD: usize = 0x0010;
    pub(super) const EECD_AUTO_READ: u32 = 1 << 9;
    pub(super) const STATUS_LU: u32 = 1 << 1;
    pub(super) const CTRL_EXT: usize = 0x0018;
    /// 82574 only: EIAC applies.
    pub(super) const CTRL_EXT_EIAME: u32 = 1 << 24;
    pub(super) const CTRL_EXT_DRV_LOAD: u32 = 1 << 28;
    pub(super) const MDIC: usize = 0x0020;
    pub(super) const MDIC_PHY: u32 = 1 << 21;
    pub(super) const MDIC_WRITE: u32 = 1 << 26;
    pub(super) const MDIC_READ: u32 = 2 << 26;
    pub(super) const MDIC_READY: u32 = 1 << 28;
    pub(super) const MDIC_ERROR: u32 = 1 << 30;
    /// The PHY's control register (IEEE 802.3, 22.2.4.1).
    pub(super) const PHY_CONTROL: u32 = 0;
    pub(super) const PHY_RESTART_NEGOTIATION: u32 = 1 << 9;
    /// Isolated, powered down, looped back: as a driver before us may have left it.
    pub(super) const PHY_ASLEEP: u32 = 1 << 10 | 1 << 11 | 1 << 14;
    pub(super) const PHY_NEGOTIATES: u32 = 1 << 12;
}

/// Reception and transmission (82576: 8.10 and 8.12, 82574: 10.2.5 and 10.2.6). Of queue n, from its base on.
mod data {
    pub(super) const RCTL: usize = 0x0100;
    pub(super) const RCTL_EN: u32 = 1 << 1;
    pub(super) const RCTL_UPE: u32 = 1 << 3;
    pub(super) const RCTL_MPE: u32 = 1 << 4;
    pub(super) const RCTL_BAM: u32 = 1 << 15;
    /// PAUSE frames are the card's own business: they are not counted among the good packets, and must not be delivered.
    pub(super) const RCTL_DPF: u32 = 1 << 22;
    pub(super) const RCTL_SECRC: u32 = 1 << 26;
    pub(super) const TCTL: usize = 0x0400;
    pub(super) const TCTL_EN: u32 = 1 << 1;
    pub(super) const TCTL_PSP: u32 = 1 << 3;
    pub(super) const TCTL_USUAL: u32 = 0x0f << 4 | 0x3f << 12;
    pub(super) const RXCSUM: usize = 0x5000;
    pub(super) const RXCSUM_PCSD: u32 = 1 << 13;
    pub(super) const RFCTL: usize = 0x5008;
    pub(super) const RFCTL_EXSTEN: u32 = 1 << 15;
    pub(super) const MTA: usize = 0x5200;
    pub(super) const MTA_WORDS: usize = 128;
    pub(super) const BAL: usize = 0x00;
    pub(super) const BAH: usize = 0x04;
    pub(super) const LEN: usize = 0x08;
    pub(super) const SRRCTL: usize = 0x0c;
    /// Advanced descriptors with one buffer, of 2 KiB.
    pub(super) const SRRCTL_ONE_BUFFER: u32 = 1 << 25 | 2;
    pub(super) const HEAD: usize = 0x10;
    pub(super) const TAIL: usize = 0x18;
    pub(super) const DCTL: usize = 0x28;
    /// 82576: descriptors are fetched 8 at a time and written back one by one; the queue is on.
    pub(super) const DCTL_82576: u32 = 8 | 8 << 8 | 1 << 16 | 1 << 25;
    pub(super) const DCTL_82576_ENABLE: u32 = 1 << 25;
    /// 82574: thresholds count descriptors, which are written back one by one; bit 22 is to be set for transmission.
    pub(super) const RXDCTL_82574: u32 = 1 << 16 | 1 << 24;
    pub(super) const TXDCTL_82574: u32 = 1 << 16 | 1 << 22 | 1 << 24;
}

/// What the 82574 needs set and cleared beyond its data sheet's defaults (its specification update; as Linux's e1000e does).
mod corrections_82574 {
    pub(super) const CTRL_CLEAR: u32 = 1 << 29;
    pub(super) const CTRL_EXT_SET: u32 = 1 << 22;
    pub(super) const CTRL_EXT_CLEAR: u32 = 1 << 23;
    pub(super) const TARC0: usize = 0x3840;
    pub(super) const TARC0_SET: u32 = 1 << 26;
    pub(super) const TARC0_CLEAR: u32 = 0xf << 27;
    /// Completions on PCIe are not relied on to come in order.
    pub(super) const GCR: usize = 0x5b00;
    pub(super) const GCR_SET: u32 = 1 << 22;
    pub(super) const GCR2: usize = 0x5b64;
    pub(super) const GCR2_SET: u32 = 1 << 0;
}

/// Receive-side scaling (82576: 7.1.1.7, 82574: 7.1.11).
mod rss {
    pub(super) const MRQC: usize = 0x5818;
    pub(super) const RETA: usize = 0x5c00;
    pub(super) const RETA_ENTRIES: usize = 128;
    pub(super) const RSSRK: usize = 0x5c80;
    pub(super) const RSSRK_WORDS: usize = 10;
    /// Both directions of a flow have the same hash under a key that repeats every 16 bits.
    pub(super) const KEY: u32 = 0x5a6d_5a6d;
    /// TCP and plain IPv4; plain and TCP over IPv6.
    pub(super) const FIELDS: u32 = 1 << 16 | 1 << 17 | 1 << 20 | 1 << 21;
    /// UDP over IPv4 and IPv6, which only the 82576 knows.
    pub(super) const FIELDS_UDP: u32 = 1 << 22 | 1 << 23;
    pub(super) const ENABLE_82576: u32 = 2;
    pub(super) const ENABLE_82574: u32 = 1;
}

/// Interrupts of the 82576 by vector (8.8).
mod vectors_82576 {
    pub(super) const GPIE: usize = 0x1514;
    pub(super) const GPIE_MSIX: u32 = 1 << 4 | 1 << 30 | 1 << 31;
    pub(super) const EIMS: usize = 0x1524;
    pub(super) const EIMC: usize = 0x1528;
    pub(super) const EIAC: usize = 0x152c;
    pub(super) const EIAM: usize = 0x1530;
    pub(super) const EICR: usize = 0x1580;
    pub(super) const EITR: usize = 0x1680;
    pub(super) const IVAR: usize = 0x1700;
    pub(super) const IVAR_VALID: u32 = 1 << 7;
    pub(super) const IMC: usize = 0x150c;
}

/// Interrupts of the 82574 by cause (10.2.4).
mod causes_82574 {
    pub(super) const ICR: usize = 0x00c0;
    pub(super) const ITR: usize = 0x00c4;
    pub(super) const IMS: usize = 0x00d0;
    pub(super) const IMC: usize = 0x00d8;
    pub(super) const EIAC: usize = 0x00dc;
    pub(super) const IVAR: usize = 0x00e4;
    pub(super) const IVAR_VALID: u32 = 1 << 3;
    pub(super) const EITR: usize = 0x00e8;
    /// Of receive queue 0; that of queue 1 is the next.
    pub(super) const RXQ0: u32 = 1 << 20;
}

/// Statistics, which reading clears (82576: 8.18, 82574: 10.2.7).
mod statistics {
    /// No room in the card's own memory, because no descriptor was free for too long.
    pub(super) const MPC: usize = 0x4010;
    /// Good packets that passed the address filter; those of MPC are not among them.
    pub(super) const GPRC: usize = 0x4074;
    /// Longer than 1,522 bytes with the frame check sequence.
    pub(super) const ROC: usize = 0x40ac;
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// 82576: up to 16 queues, a vector for each.
    I82576,
    /// 82574: up to two queues.
    I82574,
}

impl Family {
    /// By PCI vendor and device number: those with a copper port, whose PHY is the card's own.
    pub(super) fn of(id: (u16, u16)) -> Option<Self> {
        match id {
            (0x8086, 0x10c9 | 0x10e8 | 0x150a | 0x1526) => Some(Self::I82576),
            (0x8086, 0x10d3 | 0x10f6) => Some(Self::I82574),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::I82576 => "82576",
            Self::I82574 => "82574",
        }
    }

    /// Receive queues.
    pub(super) fn queues(self) -> u32 {
        match self {
            Self::I82576 => 16,
            Self::I82574 => 2,
        }
    }

    fn receive(self, queue: u32) -> usize {
        match self {
            Self::I82576 => 0xc000 + 0x40 * queue as usize,
            Self::I82574 => 0x2800 + 0x100 * queue as usize,
        }
    }

    fn transmit(self, queue: u32) -> usize {
        match self {
            Self::I82576 => 0xe000 + 0x40 * queue as usize,
            Self::I82574 => 0x3800 + 0x100 * queue as usize,
        }
    }

    /// The registers of a queue that tell the card how far its receive and transmit rings go.
    pub(super) fn tails(self, queue: u32) -> (usize, usize) {
        (self.receive(queue) + data::TAIL, self.transmit(queue) + data::TAIL)
    }
}

/// Memory of a ring, for the card.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ring {
    pub(super) address: u64,
    pub(super) descriptors: usize,
}

/// A card that is ours; dropping it silences it.
#[derive(Debug)]
pub(crate) struct Card {
    device: Arc<VfioDevice>,
    family: Family,
    counted: Mutex<Counted>,
}

/// What a card has counted since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Packets given to the rings, or to be given.
    pub(crate) good: u64,
    /// Lost for want of descriptors.
    pub(crate) missed: u64,
    /// Longer than a card takes.
    pub(crate) oversize: u64,
}

impl Card {
    /// Resets the card and brings its link up; nothing is received yet.
    ///
    /// # Errors
    /// The reset does not come to its end, or the PHY does not answer.
    pub(super) fn start(device: Arc<VfioDevice>, family: Family) -> Result<Self> {
        let this = Self { device, family, counted: Mutex::default() };
        // 82576, 4.5.3–4.5.5; 82574, 4.6: interrupts off, reset, interrupts off again.
        this.mask_all();
        this.write(general::CTRL, this.read(general::CTRL) | general::CTRL_RST);
        // Registers must not be touched for a millisecond. The EEPROM is read again, and then configures the PHY.
        std::thread::sleep(Duration::from_millis(20));
        this.until("reset", general::CTRL, general::CTRL_RST, 0, Duration::from_secs(1))?;
        let auto_read = general::EECD_AUTO_READ;
        // A card without one never says that it has been read.
        let _ = this.until("EEPROM", general::EECD, auto_read, auto_read, Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(25));
        this.mask_all();
        if family == Family::I82574 {
            this.correct();
        }
        let forced = general::CTRL_FRCSPD | general::CTRL_FRCDPX | general::CTRL_ASDE;
        this.change(general::CTRL, general::CTRL_SLU, forced);
        this.change(general::CTRL_EXT, general::CTRL_EXT_DRV_LOAD, 0);
        let phy = this.phy(general::MDIC_READ, 0)? & !general::PHY_ASLEEP;
        this.phy(general::MDIC_WRITE, phy | general::PHY_NEGOTIATES | general::PHY_RESTART_NEGOTIATION)?;
        (0..data::MTA_WORDS).for_each(|word| this.write(data::MTA + 4 * word, 0));
        Ok(this)
    }

    fn read(&self, register: usize) -> u32 {
        self.device.read(register)
    }

    fn write(&self, register: usize, value: u32) {
        self.device.write(register, value);
    }

    fn change(&self, register: usize, set: u32, clear: u32) {
        self.write(register, self.read(register) & !clear | set);
    }

    fn correct(&self) {
        use corrections_82574::*;
        self.change(general::CTRL, 0, CTRL_CLEAR);
        self.change(general::CTRL_EXT, CTRL_EXT_SET, CTRL_EXT_CLEAR);
        self.change(TARC0, TARC0_SET, TARC0_CLEAR);
        self.change(GCR, GCR_SET, 0);
        self.change(GCR2, GCR2_SET, 0);
    }

    /// Waits until the bits of `mask` in a register are `value`.
    fn until(&self, what: &str, register: usize, mask: u32, value: u32, limit: Duration) -> Result<()> {
        let since = Instant::now();
        while self.read(register) & mask != value {
            if since.elapsed() > limit {
                let cause = format!("no answer within {limit:?}");
                return Err(Error::failed(format!("set up ({what})"), self.device.address(), cause)
                    .way_out("take its power away and try again"));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Reads or writes the PHY's control register through MDIC.
    fn phy(&self, operation: u32, value: u32) -> Result<u32> {
        self.write(general::MDIC, operation | general::MDIC_PHY | general::PHY_CONTROL << 16 | value);
        self.until("PHY", general::MDIC, general::MDIC_READY, general::MDIC_READY, Duration::from_millis(100))?;
        let answer = self.read(general::MDIC);
        if answer & general::MDIC_ERROR != 0 {
            return Err(Error::failed("set up (PHY)", self.device.address(), "the PHY reports an error"));
        }
        Ok(answer & 0xffff)
    }

    /// Tells the card where a queue's rings are. Its receive ring is filled after this, and its vector is its own number.
    pub(super) fn set_rings(&self, queue: u32, receive: Ring, transmit: Option<Ring>) -> Result<()> {
        let at = self.family.receive(queue);
        self.set_ring(at, receive);
        match self.family {
            Family::I82576 => {
                self.write(at + data::SRRCTL, data::SRRCTL_ONE_BUFFER);
                self.enable(at)?;
            }
            Family::I82574 => {
                self.change(data::RFCTL, data::RFCTL_EXSTEN, 0);
                self.write(at + data::DCTL, data::RXDCTL_82574);
            }
        }
        if let Some(transmit) = transmit {
            let at = self.family.transmit(queue);
            self.set_ring(at, transmit);
            match self.family {
                Family::I82576 => self.enable(at)?,
                Family::I82574 => self.write(at + data::DCTL, data::TXDCTL_82574),
            }
        }
        self.set_vector(queue);
        Ok(())
    }

    fn set_ring(&self, at: usize, ring: Ring) {
        if self.family == Family::I82576 {
            // Some queues are on after a reset, and a ring may be changed only while its queue is off.
            self.write(at + data::DCTL, 0);
        }
        self.write(at + data::BAL, ring.address as u32);
        self.write(at + data::BAH, (ring.address >> 32) as u32);
        self.write(at + data::LEN, (ring.descriptors * DESCRIPTOR) as u32);
        self.write(at + data::HEAD, 0);
        self.write(at + data::TAIL, 0);
    }

    /// 82576, 4.5.9: a queue's tail may be written once its enable bit reads back as set.
    fn enable(&self, at: usize) -> Result<()> {
        self.write(at + data::DCTL, data::DCTL_82576);
        let enabled = data::DCTL_82576_ENABLE;
        self.until("queue", at + data::DCTL, enabled, enabled, Duration::from_millis(100))
    }

    /// An interrupt for each packet, without delay: whoever waits for it wants it, and while nobody does it is masked.
    fn set_vector(&self, queue: u32) {
        match self.family {
            Family::I82576 => {
                // 8.8.13: register n has the entries of receive queues n and n + 8 in bytes 0 and 2.
                let (register, shift) = (vectors_82576::IVAR + 4 * (queue as usize % 8), 16 * (queue / 8));
                let entry = (queue | vectors_82576::IVAR_VALID) << shift;
                self.change(register, entry, 0xff << shift);
                self.write(vectors_82576::EITR + 4 * queue as usize, 0);
            }
            Family::I82574 => {
                let entry = (queue | causes_82574::IVAR_VALID) << (4 * queue);
                self.change(causes_82574::IVAR, entry, 0xf << (4 * queue));
                self.write(causes_82574::EITR + 4 * queue as usize, 0);
            }
        }
    }

    /// Begins to receive on the first `queues` queues and to transmit; what was counted before is forgotten.
    pub(super) fn open(&self, queues: u32, promiscuous: bool) {
        match self.family {
            Family::I82576 => {
                let all = (1 << queues) - 1;
                self.write(vectors_82576::GPIE, vectors_82576::GPIE_MSIX);
                self.write(vectors_82576::EIAC, all);
                self.write(vectors_82576::EIAM, all);
            }
            Family::I82574 => {
                self.write(causes_82574::ITR, 0);
                self.write(causes_82574::EIAC, ((1 << queues) - 1) * causes_82574::RXQ0);
                self.change(general::CTRL_EXT, general::CTRL_EXT_EIAME, 0);
            }
        }
        if queues > 1 {
            self.spread(queues);
        }
        self.count();
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Counted::default();
        self.write(data::TCTL, data::TCTL_EN | data::TCTL_PSP | data::TCTL_USUAL);
        let others = if promiscuous { data::RCTL_UPE | data::RCTL_MPE } else { 0 };
        self.write(data::RCTL, data::RCTL_EN | data::RCTL_BAM | data::RCTL_DPF | data::RCTL_SECRC | others);
    }

    fn spread(&self, queues: u32) {
        (0..rss::RSSRK_WORDS).for_each(|word| self.write(rss::RSSRK + 4 * word, rss::KEY));
        for word in 0..rss::RETA_ENTRIES / 4 {
            let bytes = std::array::from_fn(|byte| {
                let queue = (4 * word + byte) as u32 % queues;
                // The 82574 has the queue in the entry's highest bit (10.2.5.16).
                if self.family == Family::I82574 { (queue << 7) as u8 } else { queue as u8 }
            });
            self.write(rss::RETA + 4 * word, u32::from_le_bytes(bytes));
        }
        // The hash takes the place of the checksum in the descriptor.
        self.change(data::RXCSUM, data::RXCSUM_PCSD, 0);
        self.write(
            rss::MRQC,
            match self.family {
                Family::I82576 => rss::ENABLE_82576 | rss::FIELDS | rss::FIELDS_UDP,
                Family::I82574 => rss::ENABLE_82574 | rss::FIELDS,
            },
        );
    }

    /// Receives no more: what is in the card's own memory still comes.
    pub(super) fn shut(&self) {
        self.change(data::RCTL, 0, data::RCTL_EN);
        self.read(general::STATUS);
    }

    /// Lets the queue's vector interrupt when the next packet comes. Causes of before are forgotten: look at the ring again.
    pub(super) fn unmask(&self, queue: u32) {
        match self.family {
            Family::I82576 => {
                self.write(vectors_82576::EICR, 1 << queue);
                self.write(vectors_82576::EIMS, 1 << queue);
            }
            Family::I82574 => {
                self.write(causes_82574::ICR, causes_82574::RXQ0 << queue);
                self.write(causes_82574::IMS, causes_82574::RXQ0 << queue);
            }
        }
        // Reading brings the writes before it to the card (PCI's ordering rules).
        self.read(general::STATUS);
    }

    /// Keeps the queue's vector silent.
    pub(super) fn mask(&self, queue: u32) {
        match self.family {
            Family::I82576 => self.write(vectors_82576::EIMC, 1 << queue),
            Family::I82574 => self.write(causes_82574::IMC, causes_82574::RXQ0 << queue),
        }
    }

    fn mask_all(&self) {
        match self.family {
            Family::I82576 => {
                self.write(vectors_82576::EIMC, u32::MAX);
                self.write(vectors_82576::IMC, u32::MAX);
            }
            Family::I82574 => self.write(causes_82574::IMC, u32::MAX),
        }
        self.read(general::STATUS);
    }

    /// Whether the link is up.
    pub(super) fn has_link(&self) -> bool {
        self.read(general::STATUS) & general::STATUS_LU != 0
    }

    /// The counters since [`Card::open`]; `None` when the card is not there any more.
    pub(crate) fn count(&self) -> Option<Counted> {
        /// What the bus answers for a device that is gone.
        const NOBODY: u32 = u32::MAX;
        if self.read(general::STATUS) == NOBODY {
            return None;
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.good += u64::from(self.read(statistics::GPRC));
        counted.missed += u64::from(self.read(statistics::MPC));
        counted.oversize += u64::from(self.read(statistics::ROC));
        Some(*counted)
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.mask_all();
        self.write(data::RCTL, 0);
        self.write(data::TCTL, 0);
        self.change(general::CTRL_EXT, 0, general::CTRL_EXT_DRV_LOAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_lie_where_the_data_sheets_say() {
        assert_eq!(Family::I82576.tails(0), (0xc018, 0xe018));
        assert_eq!(Family::I82576.tails(15), (0xc3d8, 0xe3d8));
        assert_eq!(Family::I82574.tails(1), (0x2918, 0x3918));
    }

    #[test]
    fn cards_are_known_by_their_numbers() {
        assert_eq!(Family::of((0x8086, 0x10c9)), Some(Family::I82576));
        assert_eq!(Family::of((0x8086, 0x10d3)), Some(Family::I82574));
        assert_eq!(Family::of((0x10ec, 0x10c9)), None);
    }
}
