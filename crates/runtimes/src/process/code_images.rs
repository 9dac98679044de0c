//! Images of runtimes' code in huge pages, shared by the snapshots that run them.

use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, Weak},
};

use flint_sandbox::CodeImage;
use tokio::sync::Mutex;

/// Identifies a version of an executable file, which an upgrade replaces.
type Print = (u64, u64, u64, i64, i64);

#[derive(Debug)]
enum Kept {
    /// Shared as long as a snapshot holds it.
    Image(Weak<CodeImage>),
    /// Not possible on this host or for this program.
    Impossible,
}

/// The images in use.
#[derive(Debug, Default)]
pub(crate) struct CodeImages(Mutex<HashMap<Print, Kept>>);

impl CodeImages {
    /// The image of a program's code; `None` if there can be none, and the runtime has to remap its code
    /// itself, where it can.
    pub(crate) async fn get(&self, program: &Path) -> Option<Arc<CodeImage>> {
        let print = print(program).ok()?;
        let mut kept = self.0.lock().await;
        match kept.get(&print) {
            Some(Kept::Impossible) => return None,
            Some(Kept::Image(image)) => {
                if let Some(image) = image.upgrade() {
                    return Some(image);
                }
            }
            None => {}
        }
        kept.retain(|_, kept| matches!(kept, Kept::Image(image) if image.strong_count() > 0));
        let path = program.to_owned();
        let made = tokio::task::spawn_blocking(move || CodeImage::of(&path)).await.ok()?;
        match made {
            Ok(image) => {
                let image = Arc::new(image);
                kept.insert(print, Kept::Image(Arc::downgrade(&image)));
                Some(image)
            }
            Err(error) => {
                tracing::debug!(program = %program.display(), %error, "its code cannot be shared in huge pages");
                // A lack of memory may have passed by the next snapshot.
                let is_final = matches!(
                    error.kind(),
                    ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::Unsupported
                );
                if is_final {
                    kept.insert(print, Kept::Impossible);
                }
                None
            }
        }
    }
}

fn print(program: &Path) -> io::Result<Print> {
    let file = program.metadata()?;
    Ok((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}
