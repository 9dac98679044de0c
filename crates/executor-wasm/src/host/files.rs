//! Limits the files that guests have open, since each takes one of the server's descriptors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flint_model::{LogStream, NamespaceName};
use flint_shares::Portions;
use rustix::process::getrlimit;
use wasmtime::{
    Result, StoreContextMut,
    component::{Linker, Resource, ResourceTable},
};
use wasmtime_wasi::{
    WasiView,
    filesystem::WasiFilesystemView,
    p2::bindings::filesystem::types::{
        Descriptor, DescriptorFlags, ErrorCode, Host as _, HostDescriptor as _, OpenFlags, PathFlags,
    },
};

use super::{AsHost, LogSink};

/// Guests together get this fraction of the server's descriptors...
const PART: u64 = 4;
/// ...and at most so many.
const MOST: u64 = 1 << 16;
/// How many are claimed at a time. A call with a file or two needs only one claim.
const STEP: usize = 8;

/// The interface that wasmtime links. If a new release links another one, `what_components_open_is_bounded`
/// fails.
pub(super) const TYPES: &str = "wasi:filesystem/types@0.2.12";

const NONE_LEFT: &str =
    "the files that all functions may have open together are in use, or the namespace's part of them";

/// The files that all guests of a server may have open together, of which one namespace leaves others a part.
/// Clones share the limit.
#[derive(Clone, Debug)]
pub struct OpenFiles(Arc<Mutex<Portions<NamespaceName>>>);

/// The files claimed by one call, until it is dropped.
pub(super) struct CallsFiles {
    all: OpenFiles,
    namespace: NamespaceName,
    /// More than the call has ever had handles at a time.
    held: usize,
    logs: LogSink,
    refused: bool,
}

/// Fills a handle's slot so that it cannot be used.
struct Nothing;

impl OpenFiles {
    /// A fraction of this process's limit.
    pub fn of_this_process() -> Self {
        Self::at_most((descriptors() / PART).min(MOST) as usize)
    }

    /// A limit of this many files.
    pub fn at_most(files: usize) -> Self {
        Self(Arc::new(Mutex::new(Portions::new(files))))
    }

    /// Makes the first claim of a namespace's call; the error says why it gets none.
    pub(super) fn begin(&self, namespace: &NamespaceName, logs: &LogSink) -> Result<CallsFiles, String> {
        let (all, namespace, logs) = (self.clone(), namespace.clone(), logs.clone());
        let mut files = CallsFiles { all, namespace, held: 0, logs, refused: false };
        if files.claim() { Ok(files) } else { Err(NONE_LEFT.to_owned()) }
    }

    fn taken(&self) -> MutexGuard<'_, Portions<NamespaceName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallsFiles {
    /// Claims some more, if its namespace may have them.
    fn claim(&mut self) -> bool {
        let mut taken = self.all.taken();
        if taken.rest() < STEP || taken.allows(&self.namespace, STEP) == 0 {
            return false;
        }
        taken.add(&self.namespace, STEP);
        self.held += STEP;
        true
    }

    /// Whether another file may be opened; claims more if needed. Every handle counts, whatever it is.
    pub(super) fn have_room(&mut self, table: &mut ResourceTable) -> bool {
        let handles = table.iter_mut().count();
        while self.held <= handles {
            if !self.claim() {
                if !std::mem::replace(&mut self.refused, true) {
                    self.logs.write(LogStream::Stderr, format!("flint: {NONE_LEFT}\n").as_bytes());
                }
                return false;
            }
        }
        true
    }

    /// Called before every host call of a core module, which opens at most one file. If there is none left,
    /// the handle table is filled, so that the module gets a handle only after closing one; wasmtime offers
    /// no other way to refuse.
    pub(super) fn make_room(&mut self, table: &mut ResourceTable) {
        if self.refused || self.have_room(table) {
            return;
        }
        table.set_max_capacity(0);
        // Slots of deleted handles are reused regardless of the capacity.
        while table.push(Nothing).is_ok() {}
    }
}

impl Drop for CallsFiles {
    fn drop(&mut self) {
        self.all.taken().remove(&self.namespace, self.held);
    }
}

/// Limits what components open.
pub(super) fn bound_files<T: AsHost + WasiView + 'static>(linker: &mut Linker<T>) -> Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, T>,
         (folder, how, path, open, flags): (
            Resource<Descriptor>,
            PathFlags,
            String,
            OpenFlags,
            DescriptorFlags,
        )| {
            Box::new(async move {
                let opened = if store.data_mut().host().may_open() {
                    let mut files = store.data_mut().filesystem();
                    match files.open_at(folder, how, path, open, flags).await {
                        Ok(file) => Ok(file),
                        Err(error) => Err(files.convert_error_code(error)?),
                    }
                } else {
                    Err(ErrorCode::Quota)
                };
                Ok::<_, wasmtime::Error>((opened,))
            })
        },
    )
}

/// How many descriptors this process may have.
pub(super) fn descriptors() -> u64 {
    getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use flint_model::ByteSize;

    use super::*;

    /// Opens files like a guest, until it gets no more.
    fn open_all(files: &mut CallsFiles, table: &mut ResourceTable) -> Vec<Resource<u8>> {
        let mut open = Vec::new();
        loop {
            files.make_room(table);
            match table.push(0_u8) {
                Ok(file) => open.push(file),
                Err(_) => return open,
            }
        }
    }

    #[test]
    fn calls_have_no_more_than_there_are_and_give_them_back() {
        let all = OpenFiles::at_most(8 * STEP);
        let logs = LogSink::new(ByteSize::kib(1));
        let [one, other, third] = ["one", "other", "third"].map(|name| name.parse().unwrap());
        let mut tables = [ResourceTable::new(), ResourceTable::new()];
        let mut calls = [all.begin(&one, &logs).unwrap(), all.begin(&other, &logs).unwrap()];
        // Slots of deleted handles must not circumvent the limit.
        let [first, _] = &mut tables;
        let many: Vec<_> = (0..100).map(|_| first.push(0_u8).unwrap()).collect();
        for handle in many {
            first.delete(handle).unwrap();
        }
        let open = std::iter::zip(&mut calls, &mut tables).map(|(call, table)| open_all(call, table));
        let mut open: Vec<_> = open.collect();
        let counts: Vec<_> = open.iter().map(Vec::len).collect();
        assert_eq!(counts, [5 * STEP, 2 * STEP], "each leaves some to the next");
        assert!(all.begin(&one, &logs).is_err() && all.begin(&other, &logs).is_err());
        assert!(all.begin(&third, &logs).is_ok());
        assert!(logs.finish().0.iter().any(|line| line.text.contains(NONE_LEFT)));
        // A call that closes a file can open another.
        tables[0].delete(open[0].remove(0)).unwrap();
        assert_eq!(open_all(&mut calls[0], &mut tables[0]).len(), 1);
        drop(calls);
        let mut again = all.begin(&one, &logs).unwrap();
        assert_eq!(open_all(&mut again, &mut ResourceTable::new()).len(), 6 * STEP);
        drop(again);
        assert_eq!(all.taken().sum(), 0, "nothing is kept");
    }
}
