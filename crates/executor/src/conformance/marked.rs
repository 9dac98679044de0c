//! Tells whether a function's code is in memory.

use std::sync::Arc;

use bytes::Bytes;

use crate::FunctionSource;

/// A function to deploy, and a mark that has another owner as long as its code is in memory.
pub fn marked(source: FunctionSource) -> (FunctionSource, Arc<()>) {
    struct Marked(Bytes, #[allow(dead_code, reason = "it is counted")] Arc<()>);
    impl AsRef<[u8]> for Marked {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let mark = Arc::new(());
    let code = Bytes::from_owner(Marked(source.code, Arc::clone(&mark)));
    (FunctionSource { function: source.function, code }, mark)
}
