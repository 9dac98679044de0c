//! Reads the state that an initialiser left in an instance, for the pre-initialiser.

use wasmtime::{
    Instance, Store, Val,
    component::{self, ComponentNamedList, Lift, WasmList},
};
use wasmtime_wizer::{ComponentInstanceState, InstanceState, SnapshotVal};

use crate::state::State;

/// The state of a core module.
pub(super) struct ModuleState<'a> {
    pub(super) store: &'a mut Store<State>,
    pub(super) instance: Instance,
}

impl InstanceState for ModuleState<'_> {
    async fn global_get(&mut self, name: &str, _: wasmparser::ValType) -> SnapshotVal {
        let global =
            self.instance.get_global(&mut *self.store, name).expect("the instrumentation exports it");
        match global.get(&mut *self.store) {
            Val::I32(value) => SnapshotVal::I32(value),
            Val::I64(value) => SnapshotVal::I64(value),
            Val::F32(bits) => SnapshotVal::F32(bits),
            Val::F64(bits) => SnapshotVal::F64(bits),
            Val::V128(value) => SnapshotVal::V128(value.as_u128()),
            _ => unreachable!("modules with mutable globals of reference types are refused before"),
        }
    }

    async fn memory_contents(&mut self, name: &str, contents: impl FnOnce(&[u8]) + Send) {
        let memory =
            self.instance.get_memory(&mut *self.store, name).expect("the instrumentation exports it");
        contents(memory.data(&*self.store));
    }
}

/// The state of a component. It is read by calling functions that can fail; [`Self::finish`] reports the
/// failure.
pub(super) struct ComponentState<'a> {
    store: &'a mut Store<State>,
    instance: component::Instance,
    failed: Option<wasmtime::Error>,
}

impl<'a> ComponentState<'a> {
    pub(super) fn new(store: &'a mut Store<State>, instance: component::Instance) -> Self {
        Self { store, instance, failed: None }
    }

    /// Fails if any part of the state could not be read.
    pub(super) fn finish(self) -> wasmtime::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    async fn ask<R: Lift + Send + Sync + 'static>(&mut self, instance: &str, function: &str) -> Option<R>
    where
        (R,): ComponentNamedList + Lift,
    {
        let told = async {
            let gone = || wasmtime::format_err!("the instrumentation has no {instance}#{function}");
            let within = self.instance.get_export_index(&mut *self.store, None, instance).ok_or_else(gone)?;
            let index =
                self.instance.get_export_index(&mut *self.store, Some(&within), function).ok_or_else(gone)?;
            let function = self.instance.get_typed_func::<(), (R,)>(&mut *self.store, index)?;
            Ok(function.call_async(&mut *self.store, ()).await?.0)
        };
        told.await.map_err(|error: wasmtime::Error| self.failed = Some(error)).ok()
    }
}

impl ComponentInstanceState for ComponentState<'_> {
    async fn call_func_ret_list_u8(
        &mut self,
        instance: &str,
        function: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        match self.ask::<WasmList<u8>>(instance, function).await {
            Some(list) => contents(list.as_le_slice(&*self.store)),
            None => contents(&[]),
        }
    }

    async fn call_func_ret_s32(&mut self, instance: &str, function: &str) -> i32 {
        self.ask(instance, function).await.unwrap_or_default()
    }

    async fn call_func_ret_s64(&mut self, instance: &str, function: &str) -> i64 {
        self.ask(instance, function).await.unwrap_or_default()
    }

    async fn call_func_ret_f32(&mut self, instance: &str, function: &str) -> u32 {
        self.ask::<f32>(instance, function).await.map(f32::to_bits).unwrap_or_default()
    }

    async fn call_func_ret_f64(&mut self, instance: &str, function: &str) -> u64 {
        self.ask::<f64>(instance, function).await.map(f64::to_bits).unwrap_or_default()
    }
}
