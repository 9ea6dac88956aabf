//! Least privilege: what a program that receives packets keeps once all is set up, and what it can no longer do.
//!
//! Owns the choice for every program of [`crate::process`]: capabilities, user and groups, Landlock (which files), seccomp (which
//! system calls). How all threads are told is `ringtap::privileges`'; putting settings of devices back is the keeper's.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::unistd::{self, AccessFlags};
use ringtap::privileges::{
    self, CAP_BPF, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_IPC_LOCK, Capabilities, Confinement,
};
use ringtap::{Error, Result};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::user::Successor;

/// What a program still has to do.
#[derive(Debug, Default)]
pub struct Needs<'a> {
    /// Receives by rings: memory stays locked, and the counters of AF_XDP's program are read.
    pub rings: bool,
    /// Looks names of hosts up.
    pub names: bool,
    /// Files and folders that are read again.
    pub reads: Vec<&'a Path>,
    /// Files and folders that are written; files may be replaced, so their folders count.
    pub writes: Vec<&'a Path>,
    /// Folders in which files are removed, and nothing else is done.
    pub removes: Vec<&'a Path>,
    /// User to go on as.
    pub user: Option<&'a Successor>,
}

/// What may always be read: the system's libraries and data, kernel files. Of the devices only two: the disks are root's own, and
/// in them is every file.
const SYSTEM: [&str; 7] = ["/usr", "/lib", "/lib32", "/lib64", "/proc", "/sys", "/run"];
const SYSTEM_FILES: [&str; 6] =
    ["/etc/ld.so.cache", "/etc/localtime", "/etc/hosts", "/etc/nsswitch.conf", "/dev/null", "/dev/urandom"];

/// Gives up what is not needed, in all threads. With `--no-sandbox` only the user is changed. What the kernel lacks comes back as
/// one sentence each.
pub fn enter(is_off: bool, needs: &Needs<'_>) -> Result<Vec<String>> {
    if is_off {
        needs.user.map_or(Ok(()), Successor::take_over)?;
        return Ok(Vec::new());
    }
    let failed = |step: &str, error: &dyn std::fmt::Display| {
        Error::failed("give up", step, error).way_out("--no-sandbox leaves this out")
    };
    let mut warnings = Vec::new();
    let ruleset = landlock(needs).map_err(|error| failed("access to files (Landlock)", &error))?;
    if ruleset.is_none() {
        warnings.push("access to files is not restricted: this kernel has no Landlock (5.13, lsm=landlock)".to_owned());
    }
    // Who is not root has the groups of an ordinary login.
    if unistd::geteuid().is_root() {
        match unistd::setgroups(&[]) {
            Ok(()) => {}
            // As in a container that leaves root few capabilities.
            Err(Errno::EPERM) => warnings.push("supplementary groups stay: no CAP_SETGID".to_owned()),
            Err(errno) => return Err(failed("supplementary groups", &errno)),
        }
    }
    let confinement = Confinement {
        keep: kept(needs),
        user: needs.user.map(Successor::ids),
        landlock: ruleset.as_ref().map(AsFd::as_fd),
    };
    privileges::confine_all_threads(&confinement).map_err(|error| failed("privileges", &error))?;
    match refuse_calls() {
        Ok(()) => {}
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => {
            warnings.push(format!("system calls are not restricted: this kernel has no seccomp ({error})"));
        }
        Err(error) => return Err(failed("system calls (seccomp)", &error)),
    }
    Ok(warnings)
}

/// Capabilities that are still needed.
fn kept(needs: &Needs<'_>) -> Capabilities {
    let mut keep = 0;
    if needs.rings {
        // What is allocated later is locked, too, and without this right it could not be had.
        keep |= CAP_IPC_LOCK;
        if maps_ask_for_a_right(&std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()) {
            keep |= CAP_BPF;
        }
    }
    // Root without these has root's own files only, and `sudo ringtap … -w` writes into a user's folder.
    if needs.user.is_none() {
        let reaches = |paths: &[&Path], mode| {
            privileges::without(CAP_DAC_OVERRIDE | CAP_DAC_READ_SEARCH, || paths.iter().all(|path| can(path, mode)))
        };
        // What else is in these folders is nobody's concern.
        let removes = || {
            let is_ours = |path: &&Path| {
                unistd::faccessat(AT_FDCWD, *path, AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS).is_ok()
            };
            privileges::without(CAP_DAC_OVERRIDE | CAP_DAC_READ_SEARCH, || needs.removes.iter().all(is_ours))
        };
        if !reaches(&needs.writes, AccessFlags::W_OK) || !removes() {
            keep |= CAP_DAC_OVERRIDE;
        } else if !reaches(&needs.reads, AccessFlags::R_OK) {
            keep |= CAP_DAC_READ_SEARCH;
        }
    }
    keep
}

/// Whether this kernel asks for CAP_BPF at each look at a map (before 5.19, where unprivileged_bpf_disabled is set).
fn maps_ask_for_a_right(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (5, 19)
}

/// Whether a path and what is beside or in it can be used that way by this user at the moment.
fn can(path: &Path, mode: AccessFlags) -> bool {
    let access = |path: &Path, mode| unistd::faccessat(AT_FDCWD, path, mode, AtFlags::AT_EACCESS).is_ok();
    let folder = folder_of(path);
    let in_it = || std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    access(&folder, mode | AccessFlags::X_OK)
        && (!path.exists() || access(path, mode))
        && (!path.is_dir() || in_it().filter(|entry| entry.is_file()).all(|entry| access(&entry, mode)))
}

/// The folder in which a file may be replaced; a folder itself; a device or socket itself.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !path.exists() || path.is_file() => {
            if parent.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                parent.to_owned()
            }
        }
        _ => path.to_owned(),
    }
}

/// Not so a pipe or socket behind `/dev/stdout`: it is in no file system, and Landlock neither takes nor needs a rule for it.
fn has_a_place(path: &Path) -> bool {
    !path.exists() || path.canonicalize().is_ok()
}

/// Files are read below what was named and the system's folders, written below what was named, and none is executed.
fn landlock(needs: &Needs<'_>) -> std::result::Result<Option<OwnedFd>, landlock::RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    // Best effort: a kernel that knows less restricts less.
    let all = AccessFs::from_all(ABI::V3);
    // A name that is a link: also where it leads to now.
    let folders = |paths: &[&Path]| {
        let real = paths.iter().filter_map(|path| path.canonicalize().ok());
        let named = paths.iter().filter(|path| has_a_place(path)).map(|path| folder_of(path));
        real.map(|path| folder_of(&path)).chain(named).collect::<Vec<_>>()
    };
    let system = SYSTEM.iter().chain(if needs.names { &["/etc"][..] } else { &SYSTEM_FILES[..] });
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(system, read))?
        .add_rules(path_beneath_rules(folders(&needs.reads), read))?
        .add_rules(path_beneath_rules(folders(&needs.writes), all & !BitFlags::from(AccessFs::Execute)))?
        .add_rules(path_beneath_rules(&needs.removes, BitFlags::from(AccessFs::RemoveFile)))?;
    Ok(ruleset.into())
}

/// System calls that no program here makes once it is set up, and that an intruder would.
const REFUSED: &[libc::c_long] = &[
    // Other programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Another kernel, or another part of it.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    // Mounts, roots and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Ways into the kernel that many faults were found in.
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_register,
    libc::SYS_perf_event_open,
    // Clocks and names of the host. Not adjtimex(2): without CAP_SYS_TIME it only tells how well the clock is kept.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
];

/// What is still done with bpf(2): elements of maps, and looking at them (enum bpf_cmd).
const MAP_COMMANDS: [u64; 5] = [1, 2, 3, 4, 15];
/// Flags of clone(2) for new namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// Bit of the numbers by which programs of the x32 ABI call on x86-64.
const X32: libc::c_long = 0x4000_0000;

fn refuse_calls() -> io::Result<()> {
    let filters = filters().map_err(io::Error::other)?;
    for filter in &filters {
        seccompiler::apply_filter_all_threads(filter).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            other => io::Error::other(other),
        })?;
    }
    Ok(())
}

/// A list of what is refused: a list of what is allowed would break with each new C library.
fn filters() -> std::result::Result<[BpfProgram; 2], seccompiler::BackendError> {
    let is = |argument: u8, operation: SeccompCmpOp, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
    };
    let other_than_maps: Vec<_> =
        MAP_COMMANDS.iter().map(|&command| is(0, SeccompCmpOp::Ne, command)).collect::<std::result::Result<_, _>>()?;
    let namespaces = NAMESPACES.iter().map(|&flag| {
        let flag = u64::from(flag as u32);
        SeccompRule::new(vec![is(0, SeccompCmpOp::MaskedEq(flag), flag)?])
    });
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    refused.insert(libc::SYS_bpf, vec![SeccompRule::new(other_than_maps)?]);
    refused.insert(libc::SYS_clone, namespaces.collect::<std::result::Result<_, _>>()?);
    // Its flags are in memory, where a filter can't look. The C library takes clone(2) then.
    let not_there = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let filter = |mut calls: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int| {
        let architecture: TargetArch = std::env::consts::ARCH.try_into()?;
        if architecture == TargetArch::x86_64 {
            let x32: Vec<_> = calls.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
            calls.extend(x32);
        }
        let action = SeccompAction::Errno(errno as u32);
        BpfProgram::try_from(SeccompFilter::new(calls, SeccompAction::Allow, action, architecture)?)
    };
    Ok([filter(refused, libc::EPERM)?, filter(not_there, libc::ENOSYS)?])
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_pipe_behind_a_descriptor_is_in_no_file_system() {
        let (reader, _writer) = io::pipe().unwrap();
        assert!(!has_a_place(Path::new(&format!("/proc/self/fd/{}", reader.as_raw_fd()))));
        assert!(has_a_place(Path::new("/dev/null")));
    }

    #[test]
    fn folders_count_where_files_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("there");
        std::fs::write(&file, "").unwrap();
        assert_eq!(folder_of(&file), folder.path());
        assert_eq!(folder_of(&folder.path().join("not there")), folder.path());
        assert_eq!(folder_of(folder.path()), folder.path());
        assert_eq!(folder_of(Path::new("not there")), Path::new("."));
        assert_eq!(folder_of(Path::new("/dev/null")), Path::new("/dev/null"));
    }

    #[test]
    fn old_kernels_ask_for_a_right_at_each_map() {
        for (release, asks) in [("5.10.0-8-amd64", true), ("5.19.0", false), ("6.12-rc1", false), ("", true)] {
            assert_eq!(maps_ask_for_a_right(release), asks, "{release}");
        }
    }

    #[test]
    fn where_files_are_removed_none_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        std::fs::create_dir(&below).unwrap();
        std::fs::write(folder.path().join("socket"), "").unwrap();
        let needs = Needs { removes: vec![folder.path()], ..Needs::default() };
        let Some(ruleset) = landlock(&needs).unwrap() else {
            eprintln!("not run: this kernel has no Landlock");
            return;
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let to = Confinement { keep: 0, user: None, landlock: Some(ruleset.as_fd()) };
                privileges::confine_this_thread(&to).unwrap();
                for folder in [folder.path(), &below] {
                    assert!(std::fs::write(folder.join("new"), "").is_err(), "{}", folder.display());
                }
                std::fs::remove_file(folder.path().join("socket")).unwrap();
            });
        });
    }

    #[test]
    fn devices_are_not_read() {
        let Some(ruleset) = landlock(&Needs::default()).unwrap() else {
            eprintln!("not run: this kernel has no Landlock");
            return;
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let to = Confinement { keep: 0, user: None, landlock: Some(ruleset.as_fd()) };
                privileges::confine_this_thread(&to).unwrap();
                assert!(std::fs::File::open("/dev/urandom").is_ok());
                let refused = std::fs::File::open("/dev/full").unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            });
        });
    }

    #[test]
    fn the_filters_compile() {
        filters().unwrap();
    }
}
