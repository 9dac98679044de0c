//! Combines several arms into one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;

use crate::{Arm, ArmError, Connection};

/// Calls arms strictly in turn, on whichever connection is free.
pub struct InTurn {
    arms: Arc<[Box<dyn Arm>]>,
    /// Counter shared by all connections.
    sent: Arc<AtomicUsize>,
}

impl InTurn {
    /// An arm of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(arms: Vec<Box<dyn Arm>>) -> Self {
        assert!(!arms.is_empty(), "there is nothing to call in turn");
        Self { arms: arms.into(), sent: Arc::default() }
    }
}

#[async_trait]
impl Arm for InTurn {
    /// A connection to each arm, opened on its first call.
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        let connections = self.arms.iter().map(|_| None).collect();
        Ok(Box::new(Connections { arms: self.arms.clone(), connections, sent: self.sent.clone() }))
    }

    async fn settle(&self) -> Result<(), ArmError> {
        for arm in self.arms.iter() {
            arm.settle().await?;
        }
        Ok(())
    }
}

struct Connections {
    arms: Arc<[Box<dyn Arm>]>,
    connections: Vec<Option<Box<dyn Connection>>>,
    sent: Arc<AtomicUsize>,
}

#[async_trait]
impl Connection for Connections {
    async fn call(&mut self) -> Result<(), ArmError> {
        let next = self.sent.fetch_add(1, Ordering::Relaxed);
        self.call_which(next).await
    }

    async fn call_which(&mut self, which: usize) -> Result<(), ArmError> {
        let at = which % self.arms.len();
        let connection = &mut self.connections[at];
        match connection {
            Some(connection) => connection.call().await,
            None => connection.insert(self.arms[at].connect().await?).call().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counting {
        connected: Arc<AtomicUsize>,
        called: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Arm for Counting {
        async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
            self.connected.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Self { connected: self.connected.clone(), called: self.called.clone() }))
        }
    }

    #[async_trait]
    impl Connection for Counting {
        async fn call(&mut self) -> Result<(), ArmError> {
            self.called.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    #[tokio::test]
    async fn each_is_called_as_often_and_connected_to_once_by_each_connection() {
        let counted: Vec<_> = (0..3).map(|_| Counting::default()).collect();
        let counts: Vec<_> = counted.iter().map(|one| (one.connected.clone(), one.called.clone())).collect();
        let arm = InTurn::new(counted.into_iter().map(|one| Box::new(one) as Box<dyn Arm>).collect());
        let mut callers = [arm.connect().await.unwrap(), arm.connect().await.unwrap()];
        // Two callers over three arms: each caller reaches each arm.
        for _ in 0..6 {
            for caller in &mut callers {
                caller.call().await.unwrap();
            }
        }
        for (connected, called) in counts {
            assert_eq!((connected.load(Ordering::Relaxed), called.load(Ordering::Relaxed)), (2, 4));
        }
    }
}
