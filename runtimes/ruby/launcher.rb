# frozen_string_literal: true

# Runs a Ruby function as OpenWhisk's ActionLoop: a call is one JSON line on stdin, its answer one JSON line on descriptor 3, and what the
# function prints is its log. Arguments: the file or directory of its code, and its entry point (`main`, `Module.method`).

require 'json'

module Flint
  # Exceptions that fail a call without ending the process; SystemExit is not among them.
  FAILURES = [StandardError, ScriptError, SystemStackError].freeze
  # Maximum nesting of arguments and results, at which a cyclic structure ends too.
  DEEPEST = 1000

  class Launcher
    def initialize(code, main)
      @code = code
      @main = main
      @answers = IO.for_fd(3, 'w')
      @answers.sync = true
      @answers.close_on_exec = true
      @calls = $stdin.dup
      @calls.close_on_exec = true
      @calls.set_encoding(Encoding::UTF_8) # whatever the function makes the default
      $stdin.reopen(File::NULL)
      @environment = []
    end

    def serve
      @process = Process.pid
      $stdout.sync = true
      $stderr.sync = true
      function = load_function
      answer('{"ok":true}') if ENV.key?('__OW_WAIT_FOR_ACK')
      while (line = @calls.gets("\n")) # not by $/, which the function may set
        answer(run(function, line))
      end
      0
    rescue *FAILURES => e
      answer(failure(e))
      1
    end

    private

    def entry_file
      return @code unless File.directory?(@code)

      found = %w[main.rb index.rb].map { |name| File.join(@code, name) }.find { |path| File.file?(path) }
      found || raise(LoadError, 'the archive has no main.rb at its top')
    end

    def load_function
      file = entry_file
      Dir.chdir(File.dirname(file))
      find_gems(File.dirname(file))
      $LOAD_PATH.unshift(File.dirname(file))
      require file
      owner, name = @main.match?(/[.#]/) ? @main.split(/[.#]/, 2) : [nil, @main]
      receiver = owner ? Object.const_get(owner) : TOPLEVEL_BINDING.receiver
      raise "the code has no method '#{@main}'" unless receiver.respond_to?(name, true)

      receiver.method(name)
    end

    # Finds the gems that came with the code, where `bundle install` puts them with the option `path`, also for processes that the function
    # starts.
    def find_gems(folder)
      gems = File.join(folder, 'vendor/bundle/ruby', RbConfig::CONFIG['ruby_version'])
      return unless File.directory?(gems)

      ENV['GEM_PATH'] = [gems, *Gem.path].join(File::PATH_SEPARATOR)
      Gem.clear_paths
    end

    def run(function, line)
      call = JSON.parse(line, max_nesting: DEEPEST + 1)
      enter(call)
      result = function.call(call.fetch('value', {}))
      exit if forked?
      JSON.generate(result.nil? ? {} : result, max_nesting: DEEPEST)
    rescue *FAILURES => e
      said = failure(e)
      exit(1) if forked?
      said
    end

    # Whether the function has forked this process: then its parent gives the answer.
    def forked?
      Process.pid != @process
    end

    # Sets every string of the call except its arguments in the environment.
    def enter(call)
      variables = call.select { |key, value| key != 'value' && value.is_a?(String) && !value.include?("\0") }
      variables.transform_keys! { |key| "__OW_#{key.upcase}" }
      (@environment - variables.keys).each { |gone| ENV.delete(gone) }
      ENV.update(variables)
      @environment = variables.keys
    end

    def failure(error)
      STDERR.puts(error.full_message(highlight: false).lines.reject { |line| line.start_with?("\tfrom #{__FILE__}:") })
      JSON.generate('error' => error.message.dup.force_encoding('UTF-8').scrub)
    end

    def answer(line)
      @answers.write("#{line}\n")
    rescue Errno::EPIPE
      exit!(0) # Nobody reads any more.
    end
  end
end

code, main = ARGV.slice!(0..) # which `gets` would take for files to read
exit Flint::Launcher.new(code, main || 'main').serve
