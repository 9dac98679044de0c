//! Leases calls with fairness between namespaces.

use flint_store::{LeasedCall, StoreError};
use rusqlite::{Connection, params};

use super::call::{ARGUMENTS, COLUMNS, read};
use crate::fault::sql_fault;

const OPERATION: &str = "leasing calls";

/// A request to lease calls of one line (a state of calls).
pub(super) struct Taking<'a> {
    pub(super) connection: &'a Connection,
    /// The line: 2, due, or 7, due for a retry. Each has an index of its own.
    pub(super) state: i64,
    /// The new owner of a leased call, and the end of the lease.
    pub(super) owner: &'a str,
    pub(super) until: i64,
}

impl Taking<'_> {
    /// Up to `limit` calls, shared equally between namespaces, each of which gets at most what `places` says.
    /// `last` is the namespace served last: the next one comes first. Each call comes with its size.
    pub(super) fn take(
        &self,
        limit: usize,
        last: &mut String,
        places: impl Fn(&str) -> usize,
    ) -> Result<Vec<(LeasedCall, u64)>, StoreError> {
        // At most as many namespaces as calls: further ones have their turn next time.
        let mut lines = self.lines(last, limit, places)?;
        let mut taken = Vec::new();
        while taken.len() < limit && !lines.is_empty() {
            let share = ((limit - taken.len()) / lines.len()).max(1);
            let mut next = Vec::new();
            for (name, free) in lines {
                let asked = share.min(free).min(limit - taken.len());
                if asked == 0 {
                    break;
                }
                let got = self.first(&name, asked)?;
                let (all, left) = (got.len() == asked, free - got.len());
                taken.extend(got);
                last.clone_from(&name);
                if all && left > 0 {
                    next.push((name, left));
                }
            }
            lines = next;
        }
        Ok(taken)
    }

    /// Up to `limit` namespaces with calls in the line and places for them, beginning after `last`; each with
    /// the number of calls it may be given. A namespace without places does not block others.
    fn lines(
        &self,
        last: &str,
        limit: usize,
        places: impl Fn(&str) -> usize,
    ) -> Result<Vec<(String, usize)>, StoreError> {
        let state = self.state;
        let next = format!("SELECT min(namespace) FROM calls WHERE state = {state} AND namespace > ?1");
        let mut lines = Vec::new();
        for (mut from, end) in [(last.to_owned(), None), (String::new(), Some(last))] {
            while lines.len() < limit {
                let name: Option<String> = self
                    .connection
                    .prepare_cached(&next)
                    .and_then(|mut statement| statement.query_row([&from], |row| row.get(0)))
                    .map_err(sql_fault(self.connection, OPERATION))?;
                match name {
                    Some(name) if end.is_none_or(|end| name.as_str() <= end) => {
                        from.clone_from(&name);
                        let free = places(&name).min(limit);
                        if free > 0 {
                            lines.push((name, free));
                        }
                    }
                    _ => break,
                }
            }
        }
        Ok(lines)
    }

    /// Leases the first calls of a namespace.
    fn first(&self, namespace: &str, limit: usize) -> Result<Vec<(LeasedCall, u64)>, StoreError> {
        let fault = sql_fault(self.connection, OPERATION);
        let sql = format!(
            "SELECT {COLUMNS}, {ARGUMENTS}, size FROM calls WHERE state = {} AND namespace = ?1
             ORDER BY at, activation LIMIT ?2",
            self.state
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(&fault)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![namespace, limit]).map_err(&fault)?;
        let mut calls = Vec::new();
        while let Some(row) = rows.next().map_err(&fault)? {
            let size: i64 = row.get(13).map_err(&fault)?;
            calls.push((read(self.connection, row)?, size as u64));
        }
        drop(rows);
        let mut hold = self
            .connection
            .prepare_cached("UPDATE calls SET state = 0, at = ?2, owner = ?3 WHERE number = ?1")
            .map_err(&fault)?;
        let mut leased = Vec::with_capacity(calls.len());
        for ((number, mut call), size) in calls {
            call.attempt += 1;
            hold.execute(params![number, self.until, self.owner]).map_err(&fault)?;
            leased.push((call, size));
        }
        Ok(leased)
    }
}
