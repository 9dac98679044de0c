"""Takes the pieces of an asynchronous iterator in one task, each when it is asked for: what it enters at one piece (a timeout, a task
group, a context variable) belongs to the task, and goes on at the next."""


class Pieces:
    def __init__(self, stream):
        self._stream = stream
        self._task = None

    async def next(self):
        """The next piece and None, or None and what has ended the stream: StopAsyncIteration where nothing went wrong."""
        self._ask(True)
        return await self._given.get()

    async def close(self):
        """Ends the stream if it has not ended yet. Returns what goes wrong, or None."""
        if self._task is not None and self._task.done():
            return None
        self._ask(False)
        while True:
            _, end = await self._given.get()
            if end is not None:
                return None if isinstance(end, StopAsyncIteration) else end

    def _ask(self, goes_on):
        import asyncio  # most functions are not async, and the import is slow

        if self._task is None:
            self._asked, self._given, self._cancelled = asyncio.Queue(), asyncio.Queue(), asyncio.CancelledError
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._asked.put_nowait(goes_on)

    async def _run(self):
        end = StopAsyncIteration()
        try:
            try:
                while await self._give():
                    pass
            finally:
                close = getattr(self._stream, "aclose", None)
                if close is not None:
                    await close()
        except BaseException as error:  # SystemExit too: raised in a task, it would leave the event loop at once
            end = error
        self._given.put_nowait((None, end))

    async def _give(self):
        """Gives the next piece once it is asked for; returns whether there was one to give."""
        try:
            if not await self._asked.get():
                return False
            step = self._stream.__anext__()
        except self._cancelled as error:  # by a timeout or a task group of the stream's, which must see it
            throw = getattr(self._stream, "athrow", None)
            if throw is None:
                raise
            step = throw(error)
        self._given.put_nowait((await step, None))
        return True
