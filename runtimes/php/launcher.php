<?php
// Runs a PHP function as OpenWhisk's ActionLoop: one JSON line on stdin is a call, one JSON line on descriptor 3 its answer; what the
// function prints is its log. Arguments: the file or the folder of its code, and its entry point (`main`, `Class::method`).

namespace flint;

/** How deep arguments and results may be nested. */
const DEEPEST = 1000;

/** The file that a folder of code begins with. */
function entry_file(string $code): string
{
    if (!is_dir($code)) {
        return $code;
    }
    foreach (['index.php', 'main.php'] as $name) {
        if (is_file("$code/$name")) {
            return "$code/$name";
        }
    }
    throw new \RuntimeException('the archive has no index.php at its top');
}

/** Loads the code; the function that calls go to. */
function load(string $code, string $main): callable
{
    $file = entry_file($code);
    chdir(dirname($file));
    if (is_dir($code) && is_file("$code/vendor/autoload.php")) {
        require_once "$code/vendor/autoload.php";
    }
    (static function (string $file): void {
        require_once $file;
    })($file);
    if (!is_callable($main)) {
        throw new \RuntimeException("the code has no function '$main'");
    }
    return $main;
}

/** Every text of the call but its arguments is in the environment while it runs. */
function set_environment(array $call, array $before): array
{
    $now = [];
    foreach ($call as $key => $value) {
        if ($key !== 'value' && is_string($value) && !str_contains($value, "\0")) {
            $name = '__OW_' . strtoupper($key);
            putenv("$name=$value");
            $_ENV[$name] = $_SERVER[$name] = $value;
            $now[] = $name;
        }
    }
    foreach (array_diff($before, $now) as $gone) {
        putenv($gone);
        unset($_ENV[$gone], $_SERVER[$gone]);
    }
    return $now;
}

/** The answer's line. PHP does not tell an empty object from an empty list: it stands for `{}`. */
function encode(mixed $result): string
{
    if ($result === null || $result === []) {
        return '{}';
    }
    return json_encode($result, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION, DEEPEST);
}

/** An error as PHP prints it, without the launcher's frames. */
function described(\Throwable $error): string
{
    $place = preg_quote(__FILE__, '/') . '\(\d+\): .*\n';
    $text = "$error";
    return (preg_replace("/^(#\d+) $place(#\d+ $place)*#\d+ \{main\}$/m", '$1 {main}', $text) ?? $text) . "\n";
}

function serve(string $code, string $main): int
{
    $answers = fopen('php://fd/3', 'w');
    // The calls are not for the function to read, nor for what it starts: they get an end of file as their standard input.
    $calls = fopen('php://fd/0', 'r');
    fclose(STDIN);
    $nothing = fopen('/dev/null', 'r');
    $answer = static function (string $line) use ($answers): void {
        $line .= "\n";
        while ($line !== '') {
            $written = fwrite($answers, $line);
            if (!$written) {
                exit(0); // Nobody reads any more.
            }
            $line = substr($line, $written);
        }
        fflush($answers);
    };
    try {
        $function = load($code, $main);
    } catch (\Throwable $error) {
        fwrite(STDERR, described($error));
        $answer(json_encode(['error' => $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE));
        return 1;
    }
    if (getenv('__OW_WAIT_FOR_ACK') !== false) {
        $answer('{"ok":true}');
    }
    $environment = [];
    $process = getmypid();
    while (($line = fgets($calls)) !== false) {
        try {
            $call = json_decode($line, true, DEEPEST + 1, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
            $environment = set_environment($call, $environment);
            $result = $function($call['value'] ?? []);
            if (getmypid() !== $process) {
                return 0; // The function has forked: the answer is the parent's to give.
            }
            $result = encode($result);
        } catch (\Throwable $error) {
            fwrite(STDERR, described($error));
            if (getmypid() !== $process) {
                return 255;
            }
            $result = json_encode(['error' => $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE);
        }
        while (ob_get_level() > 0 && @ob_end_flush()); // what a call has left in a buffer is its own, and not the next one's
        $answer($result);
    }
    return 0;
}

exit(serve($argv[1], $argv[2] ?? 'main'));
