//! `wasi:io/error`: describes a stream's error without details of the server.

use wasmtime::{
    Result,
    component::{HasData, Linker, Resource, ResourceTable},
};
use wasmtime_wasi_io::{IoView, bindings::wasi::io::error, streams::Error};

/// The errors among a call's handles.
struct Errors<'a>(&'a mut ResourceTable);

struct OfTable;

impl HasData for OfTable {
    type Data<'a> = Errors<'a>;
}

impl error::Host for Errors<'_> {}

impl error::HostError for Errors<'_> {
    fn drop(&mut self, error: Resource<Error>) -> Result<()> {
        self.0.delete(error)?;
        Ok(())
    }

    /// The error's user-visible text. Its debug format would contain the server's own backtrace where
    /// `RUST_BACKTRACE` is set.
    fn to_debug_string(&mut self, error: Resource<Error>) -> Result<String> {
        Ok(format!("{:#}", self.0.get(&error)?))
    }
}

pub(super) fn add_to_linker<T: IoView + Send + 'static>(linker: &mut Linker<T>) -> Result<()> {
    fn errors<T: IoView>(data: &mut T) -> Errors<'_> {
        Errors(data.table())
    }
    error::add_to_linker::<T, OfTable>(linker, errors)
}

#[cfg(test)]
mod tests {
    use wasmtime::error::Context;

    use super::{error::HostError, *};

    #[test]
    fn an_error_is_told_in_a_line_without_a_backtrace() {
        let mut table = ResourceTable::new();
        let broke = Err::<(), _>(wasmtime::format_err!("the pipe broke")).context("reading").unwrap_err();
        let error = table.push(broke).unwrap();
        let told = Errors(&mut table).to_debug_string(Resource::new_borrow(error.rep())).unwrap();
        assert_eq!(told, "reading: the pipe broke");
        Errors(&mut table).drop(error).unwrap();
        assert!(table.is_empty());
    }
}
