//! How much memory this process may still take.
//!
//! Owns what proc_meminfo(5) and the memory controller of cgroup v2 (Documentation/admin-guide/cgroup-v2.rst) say of it.

use std::path::Path;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Bytes that the kernel could still hand out (MemAvailable of proc_meminfo(5)), or that the process's control groups allow, if
/// that is less; `None` when neither can be read.
///
/// Overcommit would let mmap(2) succeed and the prefault bring in the OOM killer instead of an error.
pub fn available_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok();
    let host = text.as_deref().and_then(|text| field(text, "MemAvailable:")).and_then(|kib| kib.checked_mul(1024));
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok();
    let group = groups.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("0::/")));
    let allowed = group.and_then(|group| allowed_in(Path::new(CGROUPS), group));
    [host, allowed].into_iter().flatten().min()
}

/// What `group` below `root` and all groups around it leave; `None` where none has a bound.
fn allowed_in(root: &Path, group: &str) -> Option<u64> {
    let own = root.join(group);
    own.ancestors().take_while(|folder| folder.starts_with(root)).filter_map(left_of).min()
}

fn left_of(folder: &Path) -> Option<u64> {
    let read = |name| std::fs::read_to_string(folder.join(name)).ok();
    // "max" where there is no bound.
    let bound: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    // Pages of files that nobody has used lately go when others are wanted.
    let given_up = read("memory.stat").as_deref().and_then(|text| field(text, "inactive_file")).unwrap_or(0);
    Some(bound.saturating_sub(used.saturating_sub(given_up)))
}

/// The number behind this name, which begins a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut fields = text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace();
    fields.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_some() {
        assert!(available_memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("system.slice/sensor.service");
        std::fs::create_dir_all(&folder).unwrap();
        let write = |at: &Path, max: &str, current: &str, stat: &str| {
            std::fs::write(at.join("memory.max"), max).unwrap();
            std::fs::write(at.join("memory.current"), current).unwrap();
            std::fs::write(at.join("memory.stat"), stat).unwrap();
        };
        let allowed = || allowed_in(root.path(), "system.slice/sensor.service");
        assert_eq!(allowed(), None, "no controller");
        write(&folder, "max\n", "5000\n", "");
        assert_eq!(allowed(), None, "no bound");
        write(&folder, "100000\n", "5000\n", "anon 1\ninactive_file 2000\n");
        assert_eq!(allowed(), Some(97_000));
        write(folder.parent().unwrap(), "50000\n", "40000\n", "inactive_file 0\n");
        assert_eq!(allowed(), Some(10_000), "the group around it leaves less");
        write(folder.parent().unwrap(), "50000\n", "60000\n", "inactive_file 0\n");
        assert_eq!(allowed(), Some(0), "more is used than was allowed");
        assert_eq!(allowed_in(root.path(), ""), None, "a container sees its own group as the root");
    }
}
