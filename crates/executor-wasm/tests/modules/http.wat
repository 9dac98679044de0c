;; A component of world wasi:http/proxy, by hand. The second letter of the request's path chooses what is done:
;;   /e  echoes the request's body, as it comes          /s  streams 50 pieces of 64 KiB
;;   /t  traps before it answers                         /b  traps in the middle of its answer
;;   /w  answers a piece and then computes for ever      /n  ends without a response
;;   /p  waits for ever after the head                   /i  has the status 101
;;   /f  waits for ever after its whole answer           /g  traps a moment after its whole answer
;;   anything else: {"hello":"wasm"}
(component $http
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $io-error))
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer $http $pollable (type $pollable))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer $http $io-error (type $io-error))
    (export "input-stream" (type $in (sub resource)))
    (export "output-stream" (type $out (sub resource)))
    (type $stream-error' (variant (case "last-operation-failed" (own $io-error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $stream-error')))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $out)) (param "contents" (list u8)) (result (result (error $stream-error)))))
    (export "[method]output-stream.blocking-splice" (func
      (param "self" (borrow $out)) (param "src" (borrow $in)) (param "len" u64)
      (result (result u64 (error $stream-error)))))))
  (alias export $streams "input-stream" (type $input-stream))
  (alias export $streams "output-stream" (type $output-stream))
  (import "wasi:http/types@0.2.0" (instance $types
    (alias outer $http $input-stream (type $in))
    (alias outer $http $output-stream (type $out))
    (export "fields" (type $fields (sub resource)))
    (export "incoming-request" (type $request (sub resource)))
    (export "incoming-body" (type $incoming-body (sub resource)))
    (export "outgoing-response" (type $response (sub resource)))
    (export "outgoing-body" (type $outgoing-body (sub resource)))
    (export "response-outparam" (type $outparam (sub resource)))
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
    (export "[constructor]fields" (func (result (own $fields))))
    (export "[method]incoming-request.path-with-query" (func
      (param "self" (borrow $request)) (result (option string))))
    (export "[method]incoming-request.consume" (func
      (param "self" (borrow $request)) (result (result (own $incoming-body)))))
    (export "[method]incoming-body.stream" (func
      (param "self" (borrow $incoming-body)) (result (result (own $in)))))
    (export "[constructor]outgoing-response" (func (param "headers" (own $fields)) (result (own $response))))
    (export "[method]outgoing-response.set-status-code" (func
      (param "self" (borrow $response)) (param "status-code" u16) (result (result))))
    (export "[method]outgoing-response.body" (func
      (param "self" (borrow $response)) (result (result (own $outgoing-body)))))
    (export "[method]outgoing-body.write" (func
      (param "self" (borrow $outgoing-body)) (result (result (own $out)))))
    (export "[static]outgoing-body.finish" (func
      (param "this" (own $outgoing-body)) (param "trailers" (option (own $fields))) (result (result (error $code)))))
    (export "[static]response-outparam.set" (func
      (param "param" (own $outparam)) (param "response" (result (own $response) (error $code)))))))
  (alias export $types "incoming-request" (type $request))
  (alias export $types "response-outparam" (type $outparam))

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
  (core func $request.path (canon lower (func $types "[method]incoming-request.path-with-query")
    (memory $mem) (realloc $realloc)))
  (core func $request.consume (canon lower (func $types "[method]incoming-request.consume") (memory $mem)))
  (core func $incoming.stream (canon lower (func $types "[method]incoming-body.stream") (memory $mem)))
  (core func $response.new (canon lower (func $types "[constructor]outgoing-response")))
  (core func $response.status (canon lower (func $types "[method]outgoing-response.set-status-code")))
  (core func $response.body (canon lower (func $types "[method]outgoing-response.body") (memory $mem)))
  (core func $body.write (canon lower (func $types "[method]outgoing-body.write") (memory $mem)))
  (core func $body.finish (canon lower (func $types "[static]outgoing-body.finish") (memory $mem) (realloc $realloc)))
  (core func $set (canon lower (func $types "[static]response-outparam.set") (memory $mem)))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory $mem)))
  (core func $splice (canon lower (func $streams "[method]output-stream.blocking-splice") (memory $mem)))
  (core func $out.drop (canon resource.drop $output-stream))
  (core func $after (canon lower (func $clock "subscribe-duration")))
  (core func $block (canon lower (func $poll "[method]pollable.block")))

  (core module $handler-module
    (import "host" "memory" (memory 4))
    (import "host" "fields" (func $fields (result i32)))
    (import "host" "path" (func $path (param i32 i32)))
    (import "host" "consume" (func $consume (param i32 i32)))
    (import "host" "incoming" (func $incoming (param i32 i32)))
    (import "host" "response" (func $response (param i32) (result i32)))
    (import "host" "status" (func $status (param i32 i32) (result i32)))
    (import "host" "body" (func $body (param i32 i32)))
    (import "host" "stream" (func $stream (param i32 i32)))
    (import "host" "finish" (func $finish (param i32 i32 i32 i32)))
    (import "host" "set" (func $set (param i32 i32 i32 i32 i64 i32 i32 i32 i32)))
    (import "host" "write" (func $write (param i32 i32 i32 i32)))
    (import "host" "splice" (func $splice (param i32 i32 i64 i32)))
    (import "host" "drop" (func $drop (param i32)))
    (import "host" "after" (func $after (param i64) (result i32)))
    (import "host" "block" (func $block (param i32)))
    (global $kept (mut i32) (i32.const 0))

    (func $broken_handler (unreachable))

    ;; The handle in a result at 64; a refusal is none of this component's cases.
    (func $handle_at_64 (result i32)
      (if (i32.load8_u (i32.const 64)) (then (unreachable)))
      (i32.load (i32.const 68)))

    (func $handle_request (export "handle") (param $request i32) (param $outparam i32)
      (local $op i32) (local $response i32) (local $body i32) (local $out i32) (local $in i32) (local $n i32)
      (call $path (local.get $request) (i32.const 64))
      (local.set $op (i32.load8_u offset=1 (i32.load (i32.const 68))))
      (if (i32.eq (local.get $op) (i32.const 0x6e)) (then (return)))
      (if (i32.eq (local.get $op) (i32.const 0x74)) (then (call $broken_handler)))
      (local.set $response (call $response (call $fields)))
      (if (i32.eq (local.get $op) (i32.const 0x69)) (then
        (if (call $status (local.get $response) (i32.const 101)) (then (unreachable)))))
      (call $body (local.get $response) (i32.const 64))
      (local.set $body (call $handle_at_64))
      (call $stream (local.get $body) (i32.const 64))
      (local.set $out (call $handle_at_64))
      (call $set (local.get $outparam) (i32.const 0) (local.get $response)
        (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      (block $answered
        (if (i32.eq (local.get $op) (i32.const 0x65)) (then
          (call $consume (local.get $request) (i32.const 64))
          (call $incoming (call $handle_at_64) (i32.const 64))
          (local.set $in (call $handle_at_64))
          (loop $more
            (call $splice (local.get $out) (local.get $in) (i64.const 65536) (i32.const 64))
            (br_if $more (i32.eqz (i32.load8_u (i32.const 64)))))
          (br $answered)))
        (if (i32.eq (local.get $op) (i32.const 0x73)) (then
          (loop $more
            (memory.fill (i32.const 65536) (local.get $n) (i32.const 4096))
            ;; A piece of 64 KiB is sixteen writes of the most that one takes.
            (call $write (local.get $out) (i32.const 65536) (i32.const 4096) (i32.const 64))
            (if (i32.load8_u (i32.const 64)) (then (br $answered)))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $more (i32.lt_u (local.get $n) (i32.const 800))))
          (br $answered)))
        (call $write (local.get $out) (i32.const 1024) (i32.const 16) (i32.const 64))
        (if (i32.eq (local.get $op) (i32.const 0x62)) (then (call $broken_handler)))
        (if (i32.eq (local.get $op) (i32.const 0x77)) (then (loop $again (br $again))))
        (if (i32.eq (local.get $op) (i32.const 0x70)) (then
          (call $block (call $after (i64.const 3600000000000))))))
      (call $drop (local.get $out))
      (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 64))
      (if (i32.eq (local.get $op) (i32.const 0x66)) (then
        (call $block (call $after (i64.const 3600000000000)))))
      (if (i32.eq (local.get $op) (i32.const 0x67)) (then
        (call $block (call $after (i64.const 10000000)))
        (call $broken_handler)))))
  (core instance $handler (instantiate $handler-module (with "host" (instance
    (export "memory" (memory $mem))
    (export "fields" (func $fields.new))
    (export "path" (func $request.path))
    (export "consume" (func $request.consume))
    (export "incoming" (func $incoming.stream))
    (export "response" (func $response.new))
    (export "status" (func $response.status))
    (export "body" (func $response.body))
    (export "stream" (func $body.write))
    (export "finish" (func $body.finish))
    (export "set" (func $set))
    (export "write" (func $write))
    (export "splice" (func $splice))
    (export "drop" (func $out.drop))
    (export "after" (func $after))
    (export "block" (func $block))))))
  (func $handle (param "request" (own $request)) (param "response-out" (own $outparam))
    (canon lift (core func $handler "handle")))
  (instance $exported (export "handle" (func $handle)))
  (export "wasi:http/incoming-handler@0.2.0" (instance $exported)))
