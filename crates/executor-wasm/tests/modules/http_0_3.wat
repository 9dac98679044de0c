;; A component of world wasi:http/service 0.3, by hand: http.wat for WASI 0.3, whose requests are tasks and whose bodies are streams. The second letter of the
;; request's path chooses what is done:
;;   /e  echoes the request's body, as it comes          /s  streams 50 pieces of 64 KiB
;;   /t  traps before it answers                         /b  traps in the middle of its answer
;;   /w  answers a piece and then computes for ever      /n  ends without a response
;;   /p  waits for ever after the head                   /m  asks for memory until there is none
;;   /d  answers with an error                           anything else: {"hello":"wasm"}
(component $http
  (import "wasi:clocks/monotonic-clock@0.3.0" (instance $clock
    (export "wait-for" (func async (param "how-long" u64)))))
  (import "wasi:http/types@0.3.0" (instance $types
    (export "fields" (type $fields (sub resource)))
    (export "request" (type $request (sub resource)))
    (export "response" (type $response (sub resource)))
    (type $dns' (record (field "rcode" (option string)) (field "info-code" (option u16))))
    (export "DNS-error-payload" (type $dns (eq $dns')))
    (type $tls' (record (field "alert-id" (option u8)) (field "alert-message" (option string))))
    (export "TLS-alert-received-payload" (type $tls (eq $tls')))
    (type $size' (record (field "field-name" (option string)) (field "field-size" (option u32))))
    (export "field-size-payload" (type $size (eq $size')))
    (type $code' (variant
      (case "DNS-timeout") (case "DNS-error" $dns) (case "destination-not-found") (case "destination-unavailable")
      (case "destination-IP-prohibited") (case "destination-IP-unroutable") (case "connection-refused")
      (case "connection-terminated") (case "connection-timeout") (case "connection-read-timeout")
      (case "connection-write-timeout") (case "connection-limit-reached") (case "TLS-protocol-error")
      (case "TLS-certificate-error") (case "TLS-alert-received" $tls) (case "HTTP-request-denied")
      (case "HTTP-request-length-required") (case "HTTP-request-body-size" (option u64))
      (case "HTTP-request-method-invalid") (case "HTTP-request-URI-invalid") (case "HTTP-request-URI-too-long")
      (case "HTTP-request-header-section-size" (option u32)) (case "HTTP-request-header-size" (option $size))
      (case "HTTP-request-trailer-section-size" (option u32)) (case "HTTP-request-trailer-size" $size)
      (case "HTTP-response-incomplete") (case "HTTP-response-header-section-size" (option u32))
      (case "HTTP-response-header-size" $size) (case "HTTP-response-body-size" (option u64))
      (case "HTTP-response-trailer-section-size" (option u32)) (case "HTTP-response-trailer-size" $size)
      (case "HTTP-response-transfer-coding" (option string)) (case "HTTP-response-content-coding" (option string))
      (case "HTTP-response-timeout") (case "HTTP-upgrade-failed") (case "HTTP-protocol-error")
      (case "loop-detected") (case "configuration-error") (case "internal-error" (option string))))
    (export "error-code" (type $code (eq $code')))
    (type $trailers (future (result (option (own $fields)) (error $code))))
    (type $outcome (future (result (error $code))))
    (type $bytes (stream u8))
    (export "[constructor]fields" (func (result (own $fields))))
    (export "[method]request.get-path-with-query" (func
      (param "self" (borrow $request)) (result (option string))))
    (export "[static]request.consume-body" (func
      (param "this" (own $request)) (param "res" $outcome) (result (tuple $bytes $trailers))))
    (export "[static]response.new" (func
      (param "headers" (own $fields)) (param "contents" (option $bytes)) (param "trailers" $trailers)
      (result (tuple (own $response) $outcome))))))
  (alias export $types "fields" (type $fields))
  (alias export $types "request" (type $request))
  (alias export $types "response" (type $response))
  (alias export $types "error-code" (type $code))
  (type $trailers (future (result (option (own $fields)) (error $code))))
  (type $outcome (future (result (error $code))))
  (type $bytes (stream u8))
  (type $answer (result (own $response) (error $code)))

  ;; The memory comes before the functions that need it.
  (core module $memory-module
    (memory (export "memory") 4)
    (data (i32.const 1024) "{\"hello\":\"wasm\"}")
    ;; A path is all that is ever put there.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096)))
  (core instance $memory (instantiate $memory-module))
  (alias core export $memory "memory" (core memory $mem))
  (alias core export $memory "realloc" (core func $realloc))

  (core func $fields.new (canon lower (func $types "[constructor]fields")))
  (core func $request.path (canon lower (func $types "[method]request.get-path-with-query")
    (memory $mem) (realloc $realloc)))
  (core func $request.consume (canon lower (func $types "[static]request.consume-body") (memory $mem)))
  (core func $response.new (canon lower (func $types "[static]response.new") (memory $mem)))
  (core func $wait-for (canon lower (func $clock "wait-for")))
  (core func $bytes.new (canon stream.new $bytes))
  (core func $bytes.read (canon stream.read $bytes async (memory $mem)))
  (core func $bytes.write (canon stream.write $bytes async (memory $mem)))
  (core func $bytes.drop-readable (canon stream.drop-readable $bytes))
  (core func $bytes.drop-writable (canon stream.drop-writable $bytes))
  (core func $trailers.new (canon future.new $trailers))
  (core func $trailers.write (canon future.write $trailers async (memory $mem) (realloc $realloc)))
  (core func $trailers.drop-readable (canon future.drop-readable $trailers))
  (core func $trailers.drop-writable (canon future.drop-writable $trailers))
  (core func $outcome.new (canon future.new $outcome))
  (core func $outcome.write (canon future.write $outcome async (memory $mem) (realloc $realloc)))
  (core func $outcome.drop-readable (canon future.drop-readable $outcome))
  (core func $outcome.drop-writable (canon future.drop-writable $outcome))
  (core func $set.new (canon waitable-set.new))
  (core func $set.wait (canon waitable-set.wait (memory $mem)))
  (core func $join (canon waitable.join))
  (core func $return (canon task.return (result $answer) (memory $mem)))

  (core module $handler-module
    (import "host" "memory" (memory 4))
    (import "host" "fields" (func $fields (result i32)))
    (import "host" "path" (func $path (param i32 i32)))
    (import "host" "consume" (func $consume (param i32 i32 i32)))
    (import "host" "response" (func $response (param i32 i32 i32 i32 i32)))
    (import "host" "wait-for" (func $wait-for (param i64)))
    (import "host" "bytes.new" (func $bytes.new (result i64)))
    (import "host" "bytes.read" (func $bytes.read (param i32 i32 i32) (result i32)))
    (import "host" "bytes.write" (func $bytes.write (param i32 i32 i32) (result i32)))
    (import "host" "bytes.drop-readable" (func $bytes.drop-readable (param i32)))
    (import "host" "bytes.drop-writable" (func $bytes.drop-writable (param i32)))
    (import "host" "trailers.new" (func $trailers.new (result i64)))
    (import "host" "trailers.write" (func $trailers.write (param i32 i32) (result i32)))
    (import "host" "trailers.drop-readable" (func $trailers.drop-readable (param i32)))
    (import "host" "trailers.drop-writable" (func $trailers.drop-writable (param i32)))
    (import "host" "outcome.new" (func $outcome.new (result i64)))
    (import "host" "outcome.write" (func $outcome.write (param i32 i32) (result i32)))
    (import "host" "outcome.drop-readable" (func $outcome.drop-readable (param i32)))
    (import "host" "outcome.drop-writable" (func $outcome.drop-writable (param i32)))
    (import "host" "set.new" (func $set.new (result i32)))
    (import "host" "set.wait" (func $set.wait (param i32 i32) (result i32)))
    (import "host" "join" (func $join (param i32 i32)))
    (import "host" "return" (func $return (param i32 i32 i32 i64 i32 i32 i32 i32)))
    (global $set (mut i32) (i32.const 0))

    (func $broken_handler (unreachable))

    ;; What became of a read or write, once it is known: how much in units of 16, and in the last four bits whether it goes on (0).
    (func $await (param $waitable i32) (param $status i32) (result i32)
      (if (i32.ne (local.get $status) (i32.const -1)) (then (return (local.get $status))))
      (call $join (local.get $waitable) (global.get $set))
      (drop (call $set.wait (global.get $set) (i32.const 96)))
      (call $join (local.get $waitable) (i32.const 0))
      (i32.load (i32.const 100)))

    ;; Writes all of it, or as much as is taken; 1 when the other end is gone.
    (func $write (param $out i32) (param $at i32) (param $len i32) (result i32) (local $status i32) (local $n i32)
      (loop $more
        (local.set $status
          (call $await (local.get $out) (call $bytes.write (local.get $out) (local.get $at) (local.get $len))))
        (if (i32.and (local.get $status) (i32.const 15)) (then (return (i32.const 1))))
        (local.set $n (i32.shr_u (local.get $status) (i32.const 4)))
        (local.set $at (i32.add (local.get $at) (local.get $n)))
        (local.set $len (i32.sub (local.get $len) (local.get $n)))
        (br_if $more (local.get $len)))
      (i32.const 0))

    (func $echo (param $request i32) (param $out i32) (local $ends i64) (local $told i32) (local $in i32) (local $status i32)
      (local.set $ends (call $outcome.new))
      (local.set $told (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
      (call $consume (local.get $request) (i32.wrap_i64 (local.get $ends)) (i32.const 64))
      (local.set $in (i32.load (i32.const 64)))
      (call $trailers.drop-readable (i32.load (i32.const 68)))
      (block $done
        (loop $more
          (local.set $status
            (call $await (local.get $in) (call $bytes.read (local.get $in) (i32.const 65536) (i32.const 65536))))
          (if (i32.shr_u (local.get $status) (i32.const 4)) (then
            (br_if $done
              (call $write (local.get $out) (i32.const 65536) (i32.shr_u (local.get $status) (i32.const 4))))))
          (br_if $more (i32.eqz (i32.and (local.get $status) (i32.const 15))))))
      (call $bytes.drop-readable (local.get $in))
      ;; Zeros are: it went well.
      (drop (call $await (local.get $told) (call $outcome.write (local.get $told) (i32.const 512))))
      (call $outcome.drop-writable (local.get $told)))

    (func $handle_request (export "handle") (param $request i32) (result i32)
      (local $op i32) (local $ends i64) (local $out i32) (local $trailers i32) (local $n i32)
      (global.set $set (call $set.new))
      (call $path (local.get $request) (i32.const 64))
      (local.set $op (i32.load8_u offset=1 (i32.load (i32.const 68))))
      (if (i32.eq (local.get $op) (i32.const 0x6e)) (then (return (i32.const 0))))
      (if (i32.eq (local.get $op) (i32.const 0x74)) (then (call $broken_handler)))
      (if (i32.eq (local.get $op) (i32.const 0x64)) (then
        ;; The case "HTTP-request-denied" of an error.
        (call $return (i32.const 1) (i32.const 15) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
        (return (i32.const 0))))
      (if (i32.eq (local.get $op) (i32.const 0x6d)) (then
        (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        (call $broken_handler)))
      (local.set $ends (call $trailers.new))
      (local.set $trailers (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
      (local.set $n (i32.wrap_i64 (local.get $ends)))
      (local.set $ends (call $bytes.new))
      (local.set $out (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
      (call $response
        (call $fields) (i32.const 1) (i32.wrap_i64 (local.get $ends)) (local.get $n) (i32.const 64))
      (call $outcome.drop-readable (i32.load (i32.const 68)))
      (call $return
        (i32.const 0) (i32.load (i32.const 64)) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (local.set $n (i32.const 0))
      (block $answered
        (if (i32.eq (local.get $op) (i32.const 0x65)) (then
          (call $echo (local.get $request) (local.get $out))
          (br $answered)))
        (if (i32.eq (local.get $op) (i32.const 0x73)) (then
          (loop $more
            (memory.fill (i32.const 65536) (local.get $n) (i32.const 65536))
            (br_if $answered (call $write (local.get $out) (i32.const 65536) (i32.const 65536)))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $n) (i32.const 50))))
          (br $answered)))
        (drop (call $write (local.get $out) (i32.const 1024) (i32.const 16)))
        (if (i32.eq (local.get $op) (i32.const 0x62)) (then (call $broken_handler)))
        (if (i32.eq (local.get $op) (i32.const 0x77)) (then (loop $again (br $again))))
        (if (i32.eq (local.get $op) (i32.const 0x70)) (then (call $wait-for (i64.const 3600000000000)))))
      (call $bytes.drop-writable (local.get $out))
      ;; Zeros are: there are none.
      (drop (call $await (local.get $trailers) (call $trailers.write (local.get $trailers) (i32.const 512))))
      (call $trailers.drop-writable (local.get $trailers))
      (i32.const 0))
    ;; It waits where it is, and is never called back.
    (func (export "callback") (param i32 i32 i32) (result i32) (unreachable)))
  (core instance $handler (instantiate $handler-module (with "host" (instance
    (export "memory" (memory $mem))
    (export "fields" (func $fields.new))
    (export "path" (func $request.path))
    (export "consume" (func $request.consume))
    (export "response" (func $response.new))
    (export "wait-for" (func $wait-for))
    (export "bytes.new" (func $bytes.new))
    (export "bytes.read" (func $bytes.read))
    (export "bytes.write" (func $bytes.write))
    (export "bytes.drop-readable" (func $bytes.drop-readable))
    (export "bytes.drop-writable" (func $bytes.drop-writable))
    (export "trailers.new" (func $trailers.new))
    (export "trailers.write" (func $trailers.write))
    (export "trailers.drop-readable" (func $trailers.drop-readable))
    (export "trailers.drop-writable" (func $trailers.drop-writable))
    (export "outcome.new" (func $outcome.new))
    (export "outcome.write" (func $outcome.write))
    (export "outcome.drop-readable" (func $outcome.drop-readable))
    (export "outcome.drop-writable" (func $outcome.drop-writable))
    (export "set.new" (func $set.new))
    (export "set.wait" (func $set.wait))
    (export "join" (func $join))
    (export "return" (func $return))))))
  (type $handle (func async (param "request" (own $request)) (result $answer)))
  (func $handle (type $handle)
    (canon lift (core func $handler "handle") async (memory $mem) (callback (core func $handler "callback"))))
  (instance $exported (export "handle" (func $handle)))
  (export "wasi:http/handler@0.3.0" (instance $exported)))
