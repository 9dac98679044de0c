//! What strangers learn of bindings: nothing.

use flint_controller::{ControllerError, PutPackage};
use flint_model::{EntityPath, FunctionPath, NamespaceLimits};

use crate::support::{Server, config};

async fn put(server: &Server, path: &EntityPath, binding: Option<&EntityPath>) {
    let put = PutPackage { binding: binding.cloned(), ..PutPackage::default() };
    server.controller.put_package(&server.guest().await, path.clone(), put).await.unwrap();
}

#[tokio::test]
async fn a_stranger_is_not_told_what_a_binding_stands_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let (controller, guest) = (&server.controller, server.guest().await);
    controller.create_namespace("other".parse().unwrap(), NamespaceLimits::default()).await.unwrap();
    let key = controller.create_key(&"other".parse().unwrap(), None).await.unwrap();
    let stranger = controller.authenticate(&key.expose()).await.unwrap();
    let [secret, binding]: [EntityPath; 2] = ["guest/secret", "guest/b"].map(|path| path.parse().unwrap());
    put(&server, &secret, None).await;
    put(&server, &binding, Some(&secret)).await;

    let asked: FunctionPath = "guest/b/f".parse().unwrap();
    let forbidden = ControllerError::Forbidden(asked.to_string()).to_string();
    assert_eq!(controller.action(&stranger, &asked).await.unwrap_err().to_string(), forbidden);
    controller.delete_package(&guest, &secret, true).await.unwrap();
    assert_eq!(controller.action(&stranger, &asked).await.unwrap_err().to_string(), forbidden);
    let told = controller.action(&guest, &asked).await.unwrap_err();
    assert_eq!(told.to_string(), ControllerError::NoSuch(secret.to_string()).to_string());
    let cause = "'guest/b' is bound to package 'guest/secret', which does not exist";
    assert_eq!(told.cause().as_deref(), Some(cause));
    server.stop().await;
}
