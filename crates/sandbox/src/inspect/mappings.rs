//! The memory mappings of a process.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;

use super::Process;

/// One memory mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) name: String,
    pub(super) writable: bool,
    /// The device number of the mapped file.
    pub(super) device: u64,
}

/// Which mappings to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those that a clone would share.
    Shared,
    /// Executable mappings of files.
    Code,
}

/// At most so many mappings are listed, since a process may have tens of thousands; a clone with more shared
/// ones is refused.
pub(super) const MAPPINGS_MAX: usize = 1024;

/// `struct procmap_query` of Linux 6.11, `include/uapi/linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const WRITABLE: u64 = 0x02;
const EXECUTABLE: u64 = 0x04;
const SHARED: u64 = 0x08;
const COVERING_OR_NEXT: u64 = 0x10;
const FILE_BACKED: u64 = 0x20;
/// `_IOWR('f', 17, struct procmap_query)`
const PROCMAP_QUERY: libc::c_ulong = 0xc000_6611 | ((size_of::<Query>() as libc::c_ulong) << 16);

impl Process {
    /// The wanted mappings, at most [`MAPPINGS_MAX`]. Queried one by one where the kernel can, which saves it
    /// from formatting hundreds of others.
    pub(super) fn mappings(self, wanted: Wanted) -> io::Result<Vec<Mapping>> {
        let maps = File::open(self.path("maps"))?;
        match query(&maps, wanted) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => read(maps, wanted),
            other => other,
        }
    }
}

fn query(maps: &File, wanted: Wanted) -> io::Result<Vec<Mapping>> {
    let mut found = Vec::new();
    let mut address = 0;
    let mut name = [0u8; 4096];
    loop {
        let kind = if wanted == Wanted::Shared { SHARED } else { EXECUTABLE | FILE_BACKED };
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: kind | COVERING_OR_NEXT,
            address,
            name_size: name.len() as u32,
            name: name.as_mut_ptr() as u64,
            ..Query::default()
        };
        // SAFETY: the kernel writes the structure, whose size it is given, and at most `name_size` bytes to
        // `name`.
        if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) } < 0 {
            return match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::ENOENT) => Ok(found),
                error => Err(error),
            };
        }
        let length = (query.name_size as usize).saturating_sub(1).min(name.len());
        found.push(Mapping {
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            writable: query.vma_flags & WRITABLE != 0,
            device: rustix::fs::makedev(query.major, query.minor),
        });
        if found.len() == MAPPINGS_MAX {
            return Ok(found);
        }
        address = query.end;
    }
}

fn read(maps: File, wanted: Wanted) -> io::Result<Vec<Mapping>> {
    let mut found = Vec::new();
    for line in BufReader::new(maps).lines() {
        found.extend(parse(&line?).and_then(|(kind, mapping)| (kind == Some(wanted)).then_some(mapping)));
        if found.len() == MAPPINGS_MAX {
            break;
        }
    }
    Ok(found)
}

/// One line of `/proc/PID/maps`: `start-end rwxs offset major:minor inode   name`.
fn parse(line: &str) -> Option<(Option<Wanted>, Mapping)> {
    let mut fields = line.splitn(6, ' ');
    let (_, mode, _, device) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let inode = fields.next()?;
    let name = fields.next().unwrap_or("").trim_start();
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let kind = match (mode.as_bytes().get(3)?, mode.as_bytes().get(2)?) {
        (b's', _) => Some(Wanted::Shared),
        (_, b'x') if inode != "0" => Some(Wanted::Code),
        _ => None,
    };
    let mapping = Mapping {
        name: name.to_owned(),
        writable: mode.as_bytes().get(1) == Some(&b'w'),
        device: rustix::fs::makedev(number(major)?, number(minor)?),
    };
    Some((kind, mapping))
}

/// Why a shared mapping is not acceptable; `None` for a part of a file that nobody in the sandbox can write.
pub(super) fn objection(mapping: &Mapping, writable_devices: &dyn Fn(u64) -> bool) -> Option<String> {
    let name = if mapping.name.is_empty() { "anonymous" } else { &mapping.name };
    let object =
        ["/memfd:", "/dev/zero", "/SYSV", "anon_inode:"].iter().any(|prefix| name.starts_with(prefix));
    if mapping.writable {
        Some(format!("writable shared memory ({name})"))
    } else if object
        || name.ends_with(" (deleted)")
        || name == "anonymous"
        || writable_devices(mapping.device)
    {
        Some(format!("shared memory that can be made writable ({name})"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_two_answers_agree() {
        let shared = rustix::fs::memfd_create("flint-test", rustix::fs::MemfdFlags::empty()).unwrap();
        rustix::fs::ftruncate(&shared, 4096).unwrap();
        // SAFETY: a fresh mapping that nothing refers to.
        let place = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, shared.as_raw_fd(), 0)
        };
        assert_ne!(place, libc::MAP_FAILED);
        let maps = || File::open("/proc/self/maps").unwrap();
        for wanted in [Wanted::Shared, Wanted::Code] {
            let text = read(maps(), wanted).unwrap();
            assert!(!text.is_empty());
            match query(&maps(), wanted) {
                Ok(asked) => assert_eq!(asked, text),
                Err(error) => println!("not compared, the kernel cannot: {error}"),
            }
        }
        let found = read(maps(), Wanted::Shared).unwrap();
        let ours = found.iter().find(|mapping| mapping.name.contains("flint-test")).unwrap();
        assert!(objection(ours, &|_| false).unwrap().contains("writable shared memory"));
    }

    #[test]
    fn read_only_files_are_no_objection() {
        let line = "7f00-7f01 r--s 00000000 08:02 135522   /usr/lib/gconv/gconv-modules.cache";
        let (kind, mapping) = parse(line).unwrap();
        assert_eq!(kind, Some(Wanted::Shared));
        assert_eq!(objection(&mapping, &|_| false), None);
        assert!(objection(&mapping, &|device| device == mapping.device).is_some());
    }
}
