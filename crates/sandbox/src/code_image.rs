//! A program's machine code in huge pages, shared by all processes that run it.
//!
//! A program that remaps its own code into huge pages gets a private copy, tens of megabytes for a large one.
//! Mapped from this image all processes share one copy, and a process that is forked often keeps the benefit:
//! fewer page faults.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use object::elf::{ET_EXEC, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

const HUGE_PAGE: u64 = 2 << 20;
/// How often the kernel is asked for huge pages, and the pause between attempts.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// A sealed memfd with the code of a program that is linked to a fixed address.
#[derive(Debug)]
pub struct CodeImage {
    memory: OwnedFd,
    range: Range<u64>,
}

impl CodeImage {
    /// The name of such a mapping in `/proc/PID/maps`.
    pub const MAPPING: &str = "/memfd:flint-code (deleted)";

    /// Copies the part of the code that fills whole huge pages. Reads tens of megabytes.
    ///
    /// # Errors
    /// The program is position-independent or has too little code; the kernel has no `MADV_COLLAPSE` for
    /// shared memory (before Linux 6.1) or no huge page free.
    pub fn of(program: &Path) -> io::Result<Self> {
        let program = File::open(program)?;
        let (range, offset) = code(&program)?;
        let length = (range.end - range.start) as usize;
        let memory = sealable()?;
        ftruncate(&memory, length as u64)?;
        let mapped = Mapped::new(&memory, length)?;
        mapped.fill(&program, offset)?;
        mapped.collapse()?;
        drop(mapped);
        fcntl_add_seals(&memory, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
        Ok(Self { memory, range })
    }

    /// The memfd; its first byte belongs at the start of [`Self::range`].
    ///
    /// # Errors
    /// Too many open files.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.memory.try_clone()
    }

    /// The addresses of that code in the program.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

/// The address range of the whole huge pages of code, and its offset in the file.
fn code(program: &File) -> io::Result<(Range<u64>, u64)> {
    let unreadable = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let cache = ReadCache::new(program);
    let header = FileHeader64::<LittleEndian>::parse(&cache).map_err(unreadable)?;
    let endian = header.endian().map_err(unreadable)?;
    if header.e_type(endian) != ET_EXEC {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it is loaded anywhere"));
    }
    let segments = header.program_headers(endian, &cache).map_err(unreadable)?;
    let aligned = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X != 0)
        .filter_map(|segment| {
            let (address, size) = (segment.p_vaddr(endian), segment.p_filesz(endian));
            let range = address.checked_next_multiple_of(HUGE_PAGE)?
                ..address.checked_add(size)? / HUGE_PAGE * HUGE_PAGE;
            let offset = segment.p_offset(endian).checked_add(range.start - address)?;
            (range.start < range.end).then_some((range, offset))
        });
    aligned
        .max_by_key(|(range, _)| range.end - range.start)
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "it has less code than a huge page"))
}

fn sealable() -> io::Result<OwnedFd> {
    // The memfd is mapped, never executed as a program. Linux 6.3 can enforce that, and a host may insist on
    // it (`vm.memfd_noexec`).
    match memfd_create("flint-code", MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => {
            Ok(memfd_create("flint-code", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
        }
        other => Ok(other?),
    }
}

/// A writable mapping of the image, aligned to a huge page.
struct Mapped {
    reserved: *mut libc::c_void,
    reserved_length: usize,
    at: *mut u8,
    length: usize,
}

impl Mapped {
    fn new(memory: &OwnedFd, length: usize) -> io::Result<Self> {
        let reserved_length = length + HUGE_PAGE as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping that nothing refers to.
        let reserved = unsafe { libc::mmap(ptr::null_mut(), reserved_length, libc::PROT_NONE, flags, -1, 0) };
        if reserved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = (reserved as usize).next_multiple_of(HUGE_PAGE as usize) as *mut u8;
        let mapped = Self { reserved, reserved_length, at, length };
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        let fd = memory.as_fd().as_raw_fd();
        // SAFETY: replaces a part of the reservation above.
        if unsafe { libc::mmap(at.cast(), length, access, flags, fd, 0) } == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(mapped)
    }

    fn fill(&self, program: &File, offset: u64) -> io::Result<()> {
        // SAFETY: mapped and writable for as long as `self`, and referenced by nothing else.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at, self.length) };
        program.read_exact_at(bytes, offset)
    }

    fn collapse(&self) -> io::Result<()> {
        let mut tries = TRIES;
        loop {
            // SAFETY: changes how the kernel backs the mapping, not its content.
            if unsafe { libc::madvise(self.at.cast(), self.length, libc::MADV_COLLAPSE) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            tries -= 1;
            // EAGAIN: a page was briefly pinned or off the LRU list.
            if tries == 0 || error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: reserved by `new`; nothing refers to it any more.
        unsafe { libc::munmap(self.reserved, self.reserved_length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_fixed_address_has_none() {
        // Rust links executables position-independent by default.
        let error = CodeImage::of(Path::new("/proc/self/exe")).unwrap_err();
        assert_eq!(error.to_string(), "it is loaded anywhere");
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert_eq!(CodeImage::of(Path::new("/etc/passwd")).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
