//! Detects the contract of a Wasm module or component from its exports.

use std::io::Read;

use flint_executor::open_untrusted_zip;
use flint_model::Contract;
use wasmparser::{Encoding, Parser, Payload};

/// Maximum size of a module in an archive, as for any module that is compiled.
const LARGEST: u64 = 64 << 20;
/// Archives with more entries, which is more than are unpacked, are not searched.
const MOST_ENTRIES: usize = 10_000;

/// The contract that the code's exports imply; `None` if they imply none or it is not Wasm: what is wrong
/// with it is reported by its preparation.
pub(crate) fn contract_of(code: &[u8]) -> Option<Contract> {
    match code.starts_with(b"PK") {
        true => exported(&module_in(code)?),
        false => exported(code),
    }
}

fn exported(code: &[u8]) -> Option<Contract> {
    // Nested modules and components have exports of their own, which do not count.
    let (mut component, mut depth) = (false, 0_u32);
    let mut program = false;
    for payload in Parser::new(0).parse_all(code) {
        match payload.ok()? {
            Payload::Version { encoding, .. } if depth == 0 => component = encoding == Encoding::Component,
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ExportSection(exports) if !component => {
                for export in exports {
                    match export.ok()?.name {
                        "flint_call" => return Some(Contract::WasmCore),
                        "_start" => program = true,
                        _ => {}
                    }
                }
                return program.then_some(Contract::WasiCommand);
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                for export in exports {
                    let name = export.ok()?.name.name;
                    if name.starts_with("wasi:http/incoming-handler@")
                        || name.starts_with("wasi:http/handler@")
                    {
                        return Some(Contract::WasiHttp);
                    }
                    program |= name.starts_with("wasi:cli/run@");
                }
            }
            _ => {}
        }
    }
    program.then_some(Contract::WasiCommand)
}

/// The module in an archive: the one at its root, or among several the one of the usual name.
fn module_in(archive: &[u8]) -> Option<Vec<u8>> {
    let mut archive = open_untrusted_zip(archive, MOST_ENTRIES).ok()?;
    let mut modules: Vec<_> = archive
        .file_names()
        .filter(|name| name.ends_with(".wasm") && !name.contains('/'))
        .map(str::to_owned)
        .collect();
    let name = match modules.len() {
        1 => modules.pop()?,
        _ => modules.into_iter().find(|name| name == "function.wasm")?,
    };
    let mut module = Vec::new();
    archive.by_name(&name).ok()?.take(LARGEST).read_to_end(&mut module).ok()?;
    Some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Contract> {
        contract_of(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn the_contract_is_what_is_exported() {
        let core = r#"(module (func (export "_start")) (func (export "flint_call")))"#;
        assert_eq!(of(core), Some(Contract::WasmCore));
        assert_eq!(of(r#"(module (func (export "_start")))"#), Some(Contract::WasiCommand));
        assert_eq!(of("(module)"), None);
        // The inner module's exports are not the component's.
        assert_eq!(of(r#"(component (core module (func (export "_start"))))"#), None);
        let run = r#"(component
            (core module (func (export "_start")))
            (component $inner)
            (instance $run (instantiate $inner))
            (export "wasi:cli/run@0.2.3" (instance $run)))"#;
        assert_eq!(of(run), Some(Contract::WasiCommand));
        let http = run.replace("wasi:cli/run@", "wasi:http/incoming-handler@");
        assert_eq!(of(&http), Some(Contract::WasiHttp));
        let service = run.replace("wasi:cli/run@0.2.3", "wasi:http/handler@0.3.0");
        assert_eq!(of(&service), Some(Contract::WasiHttp));
        assert_eq!(contract_of(b"\0asm\x01\0\0"), None);
        assert_eq!(contract_of(b"PK garbage"), None);
    }
}
