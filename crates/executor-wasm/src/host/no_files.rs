//! The files of WASI 0.3: none.
//!
//! wasmtime's own cannot be bounded: their streams hold files and directories beyond the handles, and a
//! directory that is listed and not read holds a thread of the server's. The interfaces are there because
//! language runtimes import them. Assets are read with those of 0.2, which a component for 0.3 has as well.

use wasmtime::component::{Linker, Resource, ResourceType};

const TYPES: &str = "wasi:filesystem/types@0.3.0";
const PREOPENS: &str = "wasi:filesystem/preopens@0.3.0";

/// A descriptor of 0.3, which nobody ever has. That it is a type of its own keeps descriptors of 0.2 from
/// being used as one.
struct NoFile;

/// The methods of a descriptor that are plain functions...
const METHODS: [&str; 4] = ["read-via-stream", "write-via-stream", "append-via-stream", "read-directory"];
/// ...and those that are asynchronous.
const ASYNC_METHODS: [&str; 21] = [
    "advise",
    "sync-data",
    "get-flags",
    "get-type",
    "set-size",
    "set-times",
    "sync",
    "create-directory-at",
    "stat",
    "stat-at",
    "set-times-at",
    "link-at",
    "open-at",
    "readlink-at",
    "remove-directory-at",
    "rename-at",
    "symlink-at",
    "unlink-file-at",
    "is-same-object",
    "metadata-hash",
    "metadata-hash-at",
];

/// Adds the interfaces, without a directory to begin with.
pub(super) fn add_to_linker<T: 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.resource("descriptor", ResourceType::host::<NoFile>(), |_, _| Ok(()))?;
    for method in METHODS {
        types.func_new(&named(method), |_, _, _, _| Err(impossible()))?;
    }
    for method in ASYNC_METHODS {
        types.func_new_concurrent(&named(method), |_, _, _, _| Box::pin(async { Err(impossible()) }))?;
    }
    let mut preopens = linker.instance(PREOPENS)?;
    preopens.func_wrap("get-directories", |_, (): ()| Ok((Vec::<(Resource<NoFile>, String)>::new(),)))
}

fn named(method: &str) -> String {
    format!("[method]descriptor.{method}")
}

fn impossible() -> wasmtime::Error {
    wasmtime::format_err!("there are no descriptors of WASI 0.3 here")
}

#[cfg(test)]
mod tests {
    use wasmtime::{Config, Engine, Store, component::Component};

    use super::*;

    /// Imports what a language's library does, and returns how many directories it was given.
    const COUNTER: &str = r#"(component $counter
        (import "wasi:filesystem/types@0.3.0" (instance $types
            (export "descriptor" (type $own (sub resource)))
            (export "[method]descriptor.read-directory" (func (param "self" (borrow $own))))
            (export "[method]descriptor.sync" (func async (param "self" (borrow $own))))))
        (alias export $types "descriptor" (type $descriptor))
        (import "wasi:filesystem/preopens@0.3.0" (instance $preopens
            (alias outer $counter $descriptor (type $outer))
            (export "descriptor" (type $own (eq $outer)))
            (export "get-directories" (func (result (list (tuple (own $own) string)))))))
        (core module $libc
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64)))
        (core instance $libc (instantiate $libc))
        (core func $directories (canon lower (func $preopens "get-directories")
            (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
        (core module $main
            (import "" "memory" (memory 1))
            (import "" "directories" (func $directories (param i32)))
            (func (export "count") (result i32)
                (i32.store (i32.const 20) (i32.const 7))
                (call $directories (i32.const 16))
                (i32.load (i32.const 20))))
        (core instance $main (instantiate $main (with "" (instance
            (export "memory" (memory $libc "memory"))
            (export "directories" (func $directories))))))
        (func (export "count") (result u32) (canon lift (core func $main "count"))))"#;

    #[tokio::test]
    async fn components_find_the_interfaces_and_no_directory() {
        let mut config = Config::new();
        config.wasm_component_model_async(true).concurrency_support(true);
        let engine = Engine::new(&config).unwrap();
        let mut linker = Linker::<()>::new(&engine);
        add_to_linker(&mut linker).unwrap();
        let component = Component::new(&engine, wat::parse_str(COUNTER).unwrap()).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = linker.instantiate_async(&mut store, &component).await.unwrap();
        let count = instance.get_typed_func::<(), (u32,)>(&mut store, "count").unwrap();
        assert_eq!(count.call_async(&mut store, ()).await.unwrap(), (0,));
    }

    /// With another release of wasmtime the interfaces may have other names.
    #[test]
    fn these_are_the_interfaces_of_0_3() {
        let engine = Engine::new(Config::new().wasm_component_model_async(true)).unwrap();
        let mut linker = Linker::<crate::state::State>::new(&engine);
        wasmtime_wasi::p3::filesystem::add_to_linker(&mut linker).unwrap();
        for method in METHODS.iter().chain(&ASYNC_METHODS) {
            let mut types = linker.instance(TYPES).unwrap();
            assert!(types.func_new(&named(method), |_, _, _, _| Ok(())).is_err(), "{method}");
        }
    }
}
