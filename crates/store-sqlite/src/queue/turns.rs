//! Leases calls with fairness between namespaces.

use flint_store::{LeasedCall, StoreError};
use rusqlite::{Connection, params, types::ValueRef};

use super::{
    aside,
    call::{ARGUMENTS, COLUMNS, read},
    tally::Tally,
};
use crate::fault::sql_fault;

const OPERATION: &str = "leasing calls";

/// A request to lease calls of one line (a state of calls).
pub(super) struct Taking<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tally: &'a Tally,
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
        let mut lines = Vec::new();
        for (mut from, end) in [(last.to_owned(), None), (String::new(), Some(last))] {
            while lines.len() < limit {
                match self.namespace_after(&from)? {
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

    /// The next namespace with calls in the line.
    fn namespace_after(&self, from: &str) -> Result<Option<String>, StoreError> {
        let state = self.state;
        let next = format!("SELECT min(namespace) FROM calls WHERE state = {state} AND namespace > ?1");
        loop {
            let mut statement =
                self.connection.prepare_cached(&next).map_err(sql_fault(self.connection, OPERATION))?;
            let name = statement.query_row([from], |row| {
                Ok(match row.get_ref(0)? {
                    ValueRef::Null => Ok(None),
                    ValueRef::Text(name) => {
                        String::from_utf8(name.to_vec()).map(Some).map_err(|bad| (bad.into_bytes(), true))
                    }
                    other => Err((other.as_bytes().unwrap_or_default().to_vec(), false)),
                })
            });
            match name.map_err(sql_fault(self.connection, OPERATION))? {
                Ok(name) => return Ok(name),
                Err((name, is_text)) => {
                    aside::put_line(self.connection, self.tally, state, &name, is_text)?;
                }
            }
        }
    }

    /// Leases the first calls of a namespace.
    fn first(&self, namespace: &str, limit: usize) -> Result<Vec<(LeasedCall, u64)>, StoreError> {
        let calls = loop {
            let (calls, unreadable) = self.look(namespace, limit)?;
            if unreadable.is_empty() {
                break calls;
            }
            // Those behind them come in their places.
            aside::put(self.connection, self.tally, &unreadable)?;
        };
        let fault = sql_fault(self.connection, OPERATION);
        let mut hold = self
            .connection
            .prepare_cached(
                "UPDATE calls SET state = 0, at = ?2, owner = ?3, lease = lease + 1 WHERE number = ?1",
            )
            .map_err(&fault)?;
        let mut leased = Vec::with_capacity(calls.len());
        for (number, mut call, size) in calls {
            call.attempt += 1;
            call.lease.number += 1;
            hold.execute(params![number, self.until, self.owner]).map_err(&fault)?;
            leased.push((call, size));
        }
        Ok(leased)
    }

    /// The first calls of a namespace, and those among them that cannot be read.
    fn look(&self, namespace: &str, limit: usize) -> Result<(Vec<Numbered>, Vec<Unreadable>), StoreError> {
        let fault = sql_fault(self.connection, OPERATION);
        let sql = format!(
            "SELECT {COLUMNS}, {ARGUMENTS}, size FROM calls WHERE state = {} AND namespace = ?1
             ORDER BY at, activation LIMIT ?2",
            self.state
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(&fault)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![namespace, limit]).map_err(&fault)?;
        let (mut calls, mut unreadable) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next().map_err(&fault)? {
            let number = row.get(0).map_err(&fault)?;
            let size = row.get::<_, i64>(15).map_err(&fault);
            match (read(self.connection, row), size) {
                (Ok((number, call)), Ok(size)) => calls.push((number, call, size as u64)),
                (Err(error), _) | (_, Err(error)) => unreadable.push((number, error)),
            }
        }
        Ok((calls, unreadable))
    }
}

/// A call with its number and size.
type Numbered = (i64, LeasedCall, u64);
/// The number of a call, and why it cannot be read.
type Unreadable = (i64, StoreError);
