//! Contract `handler`, end to end.

mod support;

use flint_executor::{Fault, Invoked};
use support::{House, handler, json, text};

const HELLO_NODE: &str =
    "function main({ name = 'stranger' }) { console.log('hi'); return { greeting: `Hello ${name}` } }";
const HELLO_PYTHON: &str = "def main(params):\n    print('hi')\n    return {'greeting': 'Hello ' + params.get('name', 'stranger')}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_and_python_answer() {
    let house = House::new().await;
    for (kind, code) in [("nodejs:default", HELLO_NODE), ("python:default", HELLO_PYTHON)] {
        let instance = house.start(handler(kind, code)).await;
        for name in ["Ada", "Grace"] {
            let answer = text(instance.invoke(json(&format!(r#"{{"name":"{name}"}}"#))).await);
            assert_eq!(answer.replace(' ', ""), format!(r#"{{"greeting":"Hello{name}"}}"#));
        }
        instance.stop().await;
    }
    house.end().await;
}

const GARBAGE: &str = "import os
def main(params):
    for fd in range(3, 64):
        try: os.write(fd, b'\\xff' * 65536)
        except OSError: pass
    return {}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_link_is_the_functions_fault() {
    let house = House::new().await;
    let instance = house.start(handler("python:default", GARBAGE)).await;
    let Invoked::Done { result, end } = instance.invoke(json("{}")).await else { panic!("it streams") };
    assert_eq!(result.unwrap_err(), Fault::Exited { end: None });
    assert!(!end.reusable);
    instance.stop().await;
    house.end().await;
}

const WHERE: &str = "import os, sys, json, ssl
def main(params):
    root = os.listdir('/root') if os.path.isdir('/root') else []
    return {'root': root, 'home': 'root' in sys.prefix or 'root' in sys.executable, 'std': json.__file__.startswith(sys.prefix)}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_of_the_host_is_seen() {
    let house = House::new().await;
    let instance = house.start(handler("python:default", WHERE)).await;
    let answer = text(instance.invoke(json("{}")).await).replace(' ', "");
    assert_eq!(answer, r#"{"root":[],"home":false,"std":true}"#);
    instance.stop().await;
    house.end().await;
}
