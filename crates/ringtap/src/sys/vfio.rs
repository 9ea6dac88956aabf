//! A PCI device in the hands of this process: registers, memory it may reach, interrupts as eventfds (linux/vfio.h,
//! Documentation/driver-api/vfio.rst).
//!
//! Owns the container, the group and the device behind an address such as `0000:02:00.0`. What the registers mean is its
//! user's business. The IOMMU lets the device reach what was shared with [`VfioDevice::share`] and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use super::event::Event;
use super::memory::Region;
use crate::error::{Error, Result};

/// `_IO(VFIO_TYPE, VFIO_BASE + n)` of linux/vfio.h; none of these requests has a size in its number.
const fn request(number: libc::c_ulong) -> libc::c_ulong {
    (b';' as libc::c_ulong) << 8 | (100 + number)
}

const GET_API_VERSION: libc::c_ulong = request(0);
const CHECK_EXTENSION: libc::c_ulong = request(1);
const SET_IOMMU: libc::c_ulong = request(2);
const GROUP_GET_STATUS: libc::c_ulong = request(3);
const GROUP_SET_CONTAINER: libc::c_ulong = request(4);
const GROUP_GET_DEVICE_FD: libc::c_ulong = request(6);
const DEVICE_GET_REGION_INFO: libc::c_ulong = request(8);
const DEVICE_GET_IRQ_INFO: libc::c_ulong = request(9);
const DEVICE_SET_IRQS: libc::c_ulong = request(10);
const DEVICE_RESET: libc::c_ulong = request(11);
const IOMMU_MAP_DMA: libc::c_ulong = request(13);

const API_VERSION: libc::c_int = 0;
const TYPE1V2_IOMMU: libc::c_ulong = 3;
const GROUP_FLAGS_VIABLE: u32 = 1;
const REGION_BAR0: u32 = 0;
const REGION_CONFIG: u32 = 7;
const REGION_INFO_FLAG_MMAP: u32 = 4;
const IRQ_MSIX: u32 = 2;
const IRQ_REQUEST: u32 = 4;
const IRQ_SET_EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
const DMA_MAP_READ_WRITE: u32 = 3;

/// Command register of the PCI header and its bits for memory space and bus mastering (PCI Local Bus Specification, 6.2.2).
const PCI_COMMAND: u64 = 4;
const PCI_COMMAND_MEMORY: u16 = 1 << 1;
const PCI_COMMAND_MASTER: u16 = 1 << 2;

/// Where shared memory begins in the device's address space: above the range of its own interrupts (0xfee00000).
const FIRST_ADDRESS: u64 = 1 << 32;

#[repr(C)]
#[derive(Default)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct RegionInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    cap_offset: u32,
    size: u64,
    offset: u64,
}

#[repr(C)]
#[derive(Default)]
struct IrqInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    count: u32,
}

/// Vectors of the largest device that is opened here.
const MOST_VECTORS: usize = 32;

#[repr(C)]
struct IrqSet {
    argsz: u32,
    flags: u32,
    index: u32,
    start: u32,
    count: u32,
    eventfds: [i32; MOST_VECTORS],
}

#[repr(C)]
struct DmaMap {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

/// A device.
#[derive(Debug)]
pub(crate) struct VfioDevice {
    address: String,
    registers: Registers,
    device: File,
    config_offset: u64,
    container: OwnedFd,
    /// The device is ours as long as its group is open.
    _group: OwnedFd,
    /// Memory the device may write to: it must outlive the device's last write, so it is let go after it.
    shared: Vec<Arc<Region>>,
    next_address: u64,
}

/// BAR 0, mapped.
#[derive(Debug)]
struct Registers {
    base: NonNull<u32>,
    len: usize,
}

// SAFETY: registers are read and written by single volatile accesses, which any thread may make; what order they must be in is
// their user's business.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// What /sys says of the device at a PCI address, whoever drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PciFunction {
    /// Its directory in /sys.
    path: PathBuf,
    /// Vendor and device number.
    pub(crate) id: (u16, u16),
}

impl PciFunction {
    /// # Errors
    /// There is none at this address.
    pub(crate) fn find(address: &str) -> Result<Self> {
        // As a path's part it must not lead elsewhere.
        let is_address = address.len() == 12 && address.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
        let path = Path::new("/sys/bus/pci/devices").join(address);
        let number = |name: &str| {
            let text = fs::read_to_string(path.join(name)).ok()?;
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        match (is_address, number("vendor"), number("device")) {
            (true, Some(vendor), Some(device)) => Ok(Self { path, id: (vendor, device) }),
            _ => Err(Error::failed("open PCI device", format!("{address:?}"), "there is none at this address")
                .way_out("give one as lspci -D shows it: 0000:02:00.0")),
        }
    }

    /// Whether the link to it may sleep (PCI Express ASPM, L0s or L1).
    pub(crate) fn may_sleep(&self) -> bool {
        let is_on =
            |name: &str| fs::read_to_string(self.path.join("link").join(name)).is_ok_and(|text| text.trim() == "1");
        is_on("l0s_aspm") || is_on("l1_aspm")
    }

    fn link(&self, name: &str) -> Option<String> {
        Some(fs::read_link(self.path.join(name)).ok()?.file_name()?.to_str()?.to_owned())
    }
}

fn ioctl(fd: &impl AsRawFd, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<libc::c_int> {
    // SAFETY: each caller's argument is a number or the address of a structure that the request takes, valid for the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn ioctl_struct<T>(fd: &impl AsRawFd, request: libc::c_ulong, value: &mut T) -> io::Result<()> {
    ioctl(fd, request, std::ptr::from_mut(value) as libc::c_ulong).map(|_| ())
}

const fn argsz<T>() -> u32 {
    size_of::<T>() as u32
}

impl VfioDevice {
    /// Takes the device at `address`, which is bound to the driver vfio-pci, and resets it.
    ///
    /// # Errors
    /// No such device, another driver has it, no IOMMU, no right to it, or another process has it.
    pub(crate) fn open(address: &str) -> Result<Self> {
        let function = PciFunction::find(address)?;
        let failed = |what: &str, error: &io::Error| Error::os(format!("open by VFIO ({what})"), address, error);
        match function.link("driver").as_deref() {
            Some("vfio-pci") => {}
            driver => {
                return Err(Error::failed(
                    "open by VFIO",
                    address,
                    format!("its driver is {}, not vfio-pci", driver.unwrap_or("none")),
                )
                .way_out(format!(
                    "give it to vfio-pci (its interface goes away): driverctl set-override {address} vfio-pci; back: driverctl unset-override {address}"
                )));
            }
        }
        let group = function.link("iommu_group").ok_or_else(|| {
            Error::failed("open by VFIO", address, "it is in no IOMMU group")
                .way_out("switch the IOMMU on in the firmware and by intel_iommu=on on the kernel's command line")
        })?;
        let open = |path: &str| {
            OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
                let way_out = match error.raw_os_error() {
                    Some(libc::EBUSY) => "another process has it: end that",
                    Some(libc::EACCES | libc::EPERM) => "run as root, or give this user the file",
                    _ => "load the module: modprobe vfio-pci",
                };
                Error::os("open by VFIO", format!("{address} ({path})"), &error).way_out(way_out)
            })
        };
        let container: OwnedFd = open("/dev/vfio/vfio")?.into();
        let version = ioctl(&container, GET_API_VERSION, 0).map_err(|error| failed("version", &error))?;
        let type1 = ioctl(&container, CHECK_EXTENSION, TYPE1V2_IOMMU).unwrap_or(0);
        if version != API_VERSION || type1 == 0 {
            return Err(Error::failed("open by VFIO", address, "this kernel has no type 1 IOMMU interface")
                .way_out("load the module: modprobe vfio_iommu_type1"));
        }
        let group: OwnedFd = open(&format!("/dev/vfio/{group}"))?.into();
        let mut status = GroupStatus { argsz: argsz::<GroupStatus>(), ..GroupStatus::default() };
        ioctl_struct(&group, GROUP_GET_STATUS, &mut status).map_err(|error| failed("group", &error))?;
        if status.flags & GROUP_FLAGS_VIABLE == 0 {
            return Err(Error::failed("open by VFIO", address, "other devices of its IOMMU group have other drivers")
                .way_out("bind all of them to vfio-pci, or leave them without a driver"));
        }
        let mut container_fd = container.as_raw_fd();
        ioctl_struct(&group, GROUP_SET_CONTAINER, &mut container_fd).map_err(|error| failed("container", &error))?;
        ioctl(&container, SET_IOMMU, TYPE1V2_IOMMU).map_err(|error| {
            failed("IOMMU", &error).way_out(
                "if the kernel's log says that interrupts can't be remapped, this platform is not safe for VFIO",
            )
        })?;
        let name = std::ffi::CString::new(address)
            .map_err(|_| Error::usage("open PCI device", format!("{address:?}"), "a zero byte"))?;
        let device = ioctl(&group, GROUP_GET_DEVICE_FD, name.as_ptr() as libc::c_ulong)
            .map_err(|error| failed("device", &error))?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let device = unsafe { File::from_raw_fd(device) };
        // Also gets rid of what the device still does for whoever had it before. Not every device can be reset.
        let _ = ioctl(&device, DEVICE_RESET, 0);
        let registers = Self::registers(&device).map_err(|error| failed("registers", &error))?;
        let config = Self::region(&device, REGION_CONFIG).map_err(|error| failed("configuration space", &error))?;
        let this = Self {
            address: address.to_owned(),
            registers,
            device,
            config_offset: config.offset,
            container,
            _group: group,
            shared: Vec::new(),
            next_address: FIRST_ADDRESS,
        };
        this.command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER, 0).map_err(|error| failed("bus mastering", &error))?;
        Ok(this)
    }

    fn region(device: &File, index: u32) -> io::Result<RegionInfo> {
        let mut info = RegionInfo { argsz: argsz::<RegionInfo>(), index, ..RegionInfo::default() };
        ioctl_struct(device, DEVICE_GET_REGION_INFO, &mut info)?;
        Ok(info)
    }

    fn registers(device: &File) -> io::Result<Registers> {
        let info = Self::region(device, REGION_BAR0)?;
        if info.flags & REGION_INFO_FLAG_MMAP == 0 || info.size == 0 {
            return Err(io::Error::other("BAR 0 can't be mapped"));
        }
        let len = info.size as usize;
        // SAFETY: no fixed address is asked for, so no existing mapping is touched; the result is checked.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let offset = info.offset as libc::off_t;
            libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, device.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned a null mapping"))?;
        Ok(Registers { base, len })
    }

    /// Sets and clears bits of the PCI command register.
    fn command(&self, set: u16, clear: u16) -> io::Result<()> {
        let at = self.config_offset + PCI_COMMAND;
        let mut bytes = [0; 2];
        self.device.read_exact_at(&mut bytes, at)?;
        let command = (u16::from_le_bytes(bytes) | set) & !clear;
        self.device.write_all_at(&command.to_le_bytes(), at)
    }

    /// Its PCI address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn register(&self, offset: usize) -> *mut u32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.registers.len, "register {offset:#x} is beyond BAR 0");
        // SAFETY: the offset lies inside the mapping, as was just checked.
        unsafe { self.registers.base.as_ptr().add(offset / 4) }
    }

    /// Reads a register.
    pub(crate) fn read(&self, offset: usize) -> u32 {
        // SAFETY: inside the mapping and aligned, by `register`.
        u32::from_le(unsafe { self.register(offset).read_volatile() })
    }

    /// Writes a register; what was stored to shared memory before is seen by the device first.
    pub(crate) fn write(&self, offset: usize, value: u32) {
        // x86 keeps stores to memory and to registers in order; this keeps the compiler from changing that.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
        // SAFETY: inside the mapping and aligned, by `register`.
        unsafe { self.register(offset).write_volatile(value.to_le()) };
    }

    /// Lets the device read and write `memory`, which is pinned; returns where its first byte is for the device.
    ///
    /// # Errors
    /// More than may be locked, or than the IOMMU can map.
    pub(crate) fn share(&mut self, memory: &Arc<Region>) -> Result<u64> {
        let mut map = DmaMap {
            argsz: argsz::<DmaMap>(),
            flags: DMA_MAP_READ_WRITE,
            vaddr: memory.base().as_ptr() as u64,
            iova: self.next_address,
            size: memory.len() as u64,
        };
        ioctl_struct(&self.container, IOMMU_MAP_DMA, &mut map).map_err(|error| {
            Error::os("share memory with", format!("{} ({} MiB)", self.address, memory.len() >> 20), &error)
                .way_out("use a smaller --ring, or raise the limit of locked memory (ulimit -l)")
        })?;
        self.shared.push(Arc::clone(memory));
        self.next_address += map.size;
        Ok(map.iova)
    }

    /// How many MSI-X vectors the device has.
    pub(crate) fn vectors(&self) -> u32 {
        let mut info = IrqInfo { argsz: argsz::<IrqInfo>(), index: IRQ_MSIX, ..IrqInfo::default() };
        ioctl_struct(&self.device, DEVICE_GET_IRQ_INFO, &mut info).map_or(0, |()| info.count)
    }

    /// Has its first MSI-X vectors ring these.
    ///
    /// # Errors
    /// It has fewer, or no vectors are left in the host.
    pub(crate) fn signal_on_vectors(&self, events: &[Arc<Event>]) -> Result<()> {
        self.signal_on(IRQ_MSIX, events).map_err(|error| Error::os("have interrupts of", &self.address, &error))
    }

    /// Has the kernel ring this when it wants the device back: it is unplugged, or its driver is changed.
    ///
    /// # Errors
    /// This kernel does not tell.
    pub(crate) fn signal_on_request(&self, event: &Arc<Event>) -> Result<()> {
        self.signal_on(IRQ_REQUEST, std::slice::from_ref(event))
            .map_err(|error| Error::os("watch for the end of", &self.address, &error))
    }

    fn signal_on(&self, index: u32, events: &[Arc<Event>]) -> io::Result<()> {
        let mut set = IrqSet {
            argsz: (size_of::<IrqSet>() - size_of::<i32>() * (MOST_VECTORS - events.len())) as u32,
            flags: IRQ_SET_EVENTFD_TRIGGER,
            index,
            start: 0,
            count: events.len() as u32,
            eventfds: [-1; MOST_VECTORS],
        };
        for (eventfd, event) in set.eventfds.iter_mut().zip(events) {
            *eventfd = event.as_raw_fd();
        }
        // With fewer vectors than asked for the kernel takes none and answers how many there would be.
        match ioctl(&self.device, DEVICE_SET_IRQS, std::ptr::from_mut(&mut set) as libc::c_ulong)? {
            0 => Ok(()),
            there_are => Err(io::Error::other(format!("{there_are} vectors are left, {} are needed", events.len()))),
        }
    }
}

impl Drop for VfioDevice {
    fn drop(&mut self) {
        // The device must not write to memory that is let go after this.
        let _ = ioctl(&self.device, DEVICE_RESET, 0);
        let _ = self.command(0, PCI_COMMAND_MASTER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        // From linux/vfio.h.
        assert_eq!(argsz::<GroupStatus>(), 8);
        assert_eq!(argsz::<RegionInfo>(), 32);
        assert_eq!(argsz::<IrqInfo>(), 16);
        assert_eq!(size_of::<IrqSet>() - size_of::<i32>() * MOST_VECTORS, 20);
        assert_eq!(argsz::<DmaMap>(), 32);
        assert_eq!(request(0), 0x3b64);
    }

    #[test]
    fn what_is_no_pci_address_is_named_with_an_example() {
        for address in ["eth0", "", "../../../../x", "0000:02:00.0/..", "ffff:ff:1f.7"] {
            let error = PciFunction::find(address).unwrap_err().to_string();
            assert!(error.contains("0000:02:00.0"), "{error}");
        }
    }
}
