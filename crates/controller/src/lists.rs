//! How much of what is stored one list may read.

use flint_model::ByteSize;

/// JSON of a list that is read and sent without further ado.
pub const SMALL_LIST: ByteSize = ByteSize::mib(1);
/// JSON of any list. Its entities are several times that in memory, so whoever reads more than a small one has room for it first.
pub const LARGEST_LIST: ByteSize = ByteSize::mib(8);
