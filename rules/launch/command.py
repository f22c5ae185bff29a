"""Commands that a program starts: the strings and lists that name horovodrun or mpirun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from migrator.api import (
    Context,
    Drop,
    Edit,
    Finding,
    Module,
    RefusalError,
    Replace,
    Shell,
    Site,
    Span,
    StartedBy,
    Template,
    TextEdit,
    Word,
    apply,
    commands_in,
    cst,
    dotted_name,
    planner,
    reworded,
    rule,
)

from ..tensorflow.names import is_tensorflow
from .line import WORKERS, Translation, environment_before, launcher_of, read_line, shown, translated

STARTED = "launcher.started"
_SHOWN = ("print", "info", "warn", "warning", "error", "debug", "exception", "add_argument", "ArgumentParser", "echo")


@planner
def plan_commands(context: Context) -> tuple[Iterable[object], Iterable[Site]]:
    """Find the commands that the program starts ranks by."""
    found = [
        Site(STARTED, node, None, m, m.index.scope, m.index.scope) for m in context.modules for node in _commands(m)
    ]
    found += [
        Site(STARTED, cst.Name("shell"), None, m, m.index.scope, m.index.scope, shell=shell)
        for m in context.modules
        for shell in m.shells
        if _launches(shell.text)
    ]
    return (), found


def _commands(module: Module) -> Iterator[cst.BaseExpression]:
    """Lists with a launcher among their items, and strings that are a command with one."""
    lists: dict[int, cst.BaseExpression] = {}
    for node in module.index.strings:
        element = module.index.parent(node)
        holder = module.index.parent(element) if isinstance(element, cst.Element) else None
        if launcher_of(_literal(node)) and isinstance(holder, (cst.List, cst.Tuple)):
            lists.setdefault(id(holder), holder)
    yield from lists.values()
    for string in (*module.index.strings, *module.index.formatted):
        if _launches(_content(string, module)):
            yield string


def _launches(text: str) -> bool:
    return any(launcher in text for launcher in ("horovodrun", "mpirun", "mpiexec")) and any(
        launcher_of(word) and command.words[position + 1 :]
        for command in commands_in(text)
        for position, word in enumerate(command.words)
    )


def _content(node: cst.BaseExpression, module: Module) -> str:
    """What stands between the quotes; nothing where escapes would shift it."""
    source = module.source(node)
    prefix, quote = _quotes(node)
    inner = source[len(prefix) + len(quote) : -len(quote)]
    return "" if "\\" in inner else inner


def _quotes(node: cst.BaseExpression) -> tuple[str, str]:
    if isinstance(node, cst.SimpleString):
        return node.prefix, node.quote
    assert isinstance(node, cst.FormattedString)
    return node.prefix, node.quote


@rule("HVD651", "launch-line", symbols=[STARTED])
def started(site: Site, context: Context) -> Finding | tuple[Finding, ...]:
    if not context.sites and "horovod" not in "".join(module.text for module in context.modules).lower():
        return ()
    if site.shell is not None:
        return _shell(site, site.shell, context)
    if isinstance(site.node, (cst.List, cst.Tuple)):
        return _list(site, site.node, context)
    return _string(site, context)


def _translated(words: Sequence[Word], context: Context) -> Translation:
    launchers = [plan.launcher for plan in context.plan(StartedBy)]
    launcher = launchers[0] if launchers else WORKERS if is_tensorflow(context) else "torchrun"
    return translated(read_line(words), launcher)


def _list(site: Site, node: cst.List | cst.Tuple, context: Context) -> Finding:
    words = [_word(element, site.module) for element in node.elements]
    position = next(n for n, word in enumerate(words) if launcher_of(word))
    if not words[position + 1 :] and not isinstance(site.module.index.parent(node), cst.BinaryOperation):
        return site.found("note", "names a launcher among other words: they are left as they are")
    translation = _translated(words[position:], context)
    if translation.environment:
        raise RefusalError(f"set {' '.join(translation.environment)} for torchrun, in the env of the call")
    edits = list(_edits(node.elements[position:], words[position:], translation.words))
    return site.found("review", _message(words[position], translation), edits)


def _word(element: cst.BaseElement, module: Module) -> Word:
    value = element.value
    if isinstance(value, cst.SimpleString) and not isinstance(element, cst.StarredElement):
        return _literal(value)
    source = module.source(value)
    starred = isinstance(element, cst.StarredElement)
    return Word("*" + source if starred else source, source, Span(0, 0), is_literal=False, is_code=True)


def _literal(node: cst.SimpleString) -> Word:
    return Word(node.raw_value, node.raw_value, Span(0, 0))


def _edits(elements: Sequence[cst.BaseElement], old: Sequence[Word], new: Sequence[Word | str]) -> Iterator[Edit]:
    """Edits of a list, item by item: items that stay keep their place, new ones take that of an item that goes."""
    places = {id(word): index for index, word in enumerate(old)}
    position, waiting = 0, list[str]()
    for word in (*new, None):
        index = len(old) if word is None else places[id(word)] if isinstance(word, Word) else -1
        if isinstance(word, str) or (word is not None and index < position):
            waiting.append(repr(word) if isinstance(word, str) else word.text)
            continue
        gone = elements[position:index]
        if waiting and not gone:
            raise RefusalError("the new words have no place among the old ones: write the list anew")
        if waiting:
            text = ", ".join(item.replace("'", '"') if item[0] == "'" else item for item in waiting)
            yield Replace(gone[0].value, Template(text, is_final=True))
        yield from (Drop(element) for element in gone[bool(waiting) :] if isinstance(element, cst.Element))
        position, waiting = index + 1, []


def _shell(site: Site, shell: Shell, context: Context) -> Finding:
    try:
        new, message = _rewritten(shell.text, context)
    except RefusalError as refusal:
        return replace(site.found("review", f"the line is left as it is: {refusal}"), place=shell.span)
    edit = Replace(site.node, Template(shell.written(new), is_final=True))
    return replace(site.found("review", message, [edit]), place=shell.span)


def _rewritten(text: str, context: Context) -> tuple[str, str]:
    """A text with its commands rewritten, and what to say of them. Raises RefusalError for one that cannot be."""
    edits: list[TextEdit] = []
    messages: list[str] = []
    for command in commands_in(text):
        position = next((n for n, word in enumerate(command.words) if launcher_of(word)), None)
        if position is None or not command.words[position + 1 :]:
            continue
        before = command.words[:position]
        translation = _translated(command.words[position:], context)
        environment = environment_before(translation, before, is_shell=True)
        try:
            edits += reworded(text, command, [*before, *environment, *translation.words])
        except ValueError as error:
            raise RefusalError(str(error)) from error
        messages.append(_message(command.words[position], translation))
    if not edits:
        raise RefusalError("the command cannot be read: write torchrun's by hand")
    return apply(text, edits), "; ".join(messages)


def _string(site: Site, context: Context) -> Finding:
    content = _content(site.node, site.module)
    prefix, quote = _quotes(site.node)
    if _is_shown(site):
        return site.found("note", "the text names a launcher: it is left as it is")
    if isinstance(site.module.index.parent(site.node), cst.ConcatenatedString):
        raise RefusalError("the command is put together from several strings: write torchrun's by hand")
    new, message = _rewritten(content, context)
    if quote in new:
        raise RefusalError("the new command has the quotes of the string in it: write it by hand")
    edit = Replace(site.node, Template(f"{prefix}{quote}{new}{quote}", is_final=True))
    return site.found("review", message, [edit])


def _is_shown(site: Site) -> bool:
    """Whether the string is an argument of what shows it to people."""
    holders = list(site.module.index.ancestors(site.node))
    calls = [holder for holder in holders if isinstance(holder, cst.Call)]
    is_told = any(isinstance(holder, cst.Raise) for holder in holders) or isinstance(holders[0], cst.Expr)
    return is_told or bool(calls and dotted_name(calls[0].func).rpartition(".")[2] in _SHOWN)


def _message(launcher: Word, translation: Translation) -> str:
    return "; ".join([f"{launcher_of(launcher)} → {shown(translation.words)}", *translation.notes])
