"""Skills: which are found and which refused, what the model is told, loading them, and that they stay."""

import os
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.agent.extensions.catalogue import (
    MOST_BYTES,
    TOO_LARGE,
    UNTYPABLE,
    Catalogue,
    catalogue_of,
)
from foldline.agent.extensions.skills import (
    BAD_HYPHEN,
    BAD_NAME,
    LONG_FIELD,
    NO_FIELD,
    OTHER_NAME,
    listing,
)
from foldline.agent.project.discovery import (
    ANCHORS,
    BAD_YAML,
    DUPLICATE_FIELD,
    LONG_FRONT_MATTER,
    NO_FRONT_MATTER,
    NOT_FIELDS,
    OPEN_FRONT_MATTER,
    TOO_DEEP,
    Extension,
)
from foldline.agent.project.trust import LEADS_OUT, decide, folder_files
from foldline.agent.session.skill_loading import (
    ALREADY_LOADED,
    AVAILABLE,
    NO_SKILL,
    loaded,
    skill_rows,
)
from foldline.history import Session
from foldline.protocol import (
    Compaction,
    DeveloperMessage,
    FoldlineError,
    operations,
    text_parts,
)
from foldline.protocol.events import ApprovalRequested
from foldline.view.rules import broken
from foldline.view.weight import request_breakdown
from support.agents import PlayedLLM, agent_in, tool_reply
from support.homes import put, skill, usual_home, usual_project
from support.sandboxes import require_engine
from support.trust import agree

pytestmark = pytest.mark.usefixtures("data_folder")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return tmp_path / "project"


def found(cwd: Path) -> Catalogue:
    return catalogue_of(cwd)


def why(cwd: Path) -> str:
    return " ".join(map(str, found(cwd).left_aside))


# --- what is found ----------------------------------------------------------------------------------------


def test_nearer_skills_win_and_the_others_are_said(project: Path, home: Path) -> None:
    usual_home(home)
    cwd = project / "shop"
    skill(cwd / ".foldline/skills", "release-notes", "Nearest.")
    skill(project / ".agents/skills", "release-notes", "Farther.")
    agree(cwd)
    skills = found(cwd).skills
    assert [*skills] == ["release-notes", "pdf-forms"]
    assert skills["release-notes"].description == "Nearest."
    assert (
        "../.agents/skills/release-notes/SKILL.md was ignored: .foldline/skills/release-notes"
        in why(cwd)
    )
    assert "~/.agents/skills/release-notes/SKILL.md was ignored" in why(cwd)


def test_a_skill_that_several_folders_link_to_is_one_skill_and_no_duplicate(
    home: Path, project: Path
) -> None:
    skill(home / ".agents/skills", "pdf")
    (home / ".claude").mkdir()
    (home / ".claude/skills").symlink_to(home / ".agents/skills")
    assert [*found(project).skills] == ["pdf"]
    assert not found(project).left_aside


def test_a_skill_of_a_project_does_nothing_before_it_was_agreed_to_and_after_it_changed(
    project: Path,
) -> None:
    path = skill(project / ".claude/skills", "deploy")
    assert not found(project).skills and "deploy" in found(project).by_name
    agree(project)
    assert [*found(project).skills] == ["deploy"]
    path.write_text(path.read_text() + "And push.")
    assert not found(project).skills
    decide(folder_files(project), "declined")
    assert not found(project).skills


def test_skills_above_the_repository_and_of_the_home_folder_are_not_the_projects(
    tmp_path: Path, home: Path
) -> None:
    skill(tmp_path / ".claude/skills", "anybodys")
    skill(home / ".claude/skills", "mine")
    (home / ".git").mkdir()
    assert [*found(home / "deep").skills] == ["mine"], (
        "a home folder under git brings nothing: it is the user's"
    )
    assert not folder_files(home / "deep")
    (tmp_path / "project").mkdir()
    assert [*found(tmp_path / "project").skills] == ["mine"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_description_with_a_colon_and_a_mark_of_its_bytes_are_taken(
    mark: str, home: Path, project: Path
) -> None:
    said = 'Use this when asked. Examples: <example>It\'s a "test" # one</example>'
    put(
        home / ".claude/skills/odd/SKILL.md",
        f"{mark}---\nname: odd\ndescription: {said}\n---\nDo it.",
    )
    assert (
        found(project).skills["odd"].description == said
        and not found(project).left_aside
    )


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("Just text.", NO_FRONT_MATTER),
        ("---\nname: odd\n", OPEN_FRONT_MATTER),
        ("---\nname: odd\n---\nDo it.", NO_FIELD.format(name="description")),
        (
            "---\nname: odd\ndescription: ' '\n---\n",
            NO_FIELD.format(name="description"),
        ),
        (
            "---\nname: odd\ndescription: [a]\n---\n",
            NO_FIELD.format(name="description"),
        ),
        (
            f"---\nname: odd\ndescription: {'long ' * 300}\n---\n",
            LONG_FIELD.format(name="description", most=1_024),
        ),
        (
            "---\nname: even\ndescription: x\n---\n",
            OTHER_NAME.format(name="even", folder="odd"),
        ),
        ("---\nname: a/b\ndescription: x\n---\n", BAD_NAME.format(name="a/b")),
        ("---\nname: ../odd\ndescription: x\n---\n", BAD_NAME.format(name="../odd")),
        ("---\nname: Odd\ndescription: x\n---\n", BAD_NAME.format(name="Odd")),
        ("---\nname: -odd\ndescription: x\n---\n", BAD_HYPHEN.format(name="-odd")),
        (
            "---\nname: odd\ndescription: x\nlicense: MIT: or so\n---\n",
            BAD_YAML.format(problem="mapping values", place=""),
        ),
        ("---\nname: odd\nname: odd\ndescription: x\n---\n", DUPLICATE_FIELD),
        ("---\n- name\n---\n", NOT_FIELDS),
        ("---\na: &a [x]\nb: [*a, *a]\n---\n", ANCHORS),
        ("---\nname: !!python/object:os.system odd\n---\n", ANCHORS),
        (f"---\na: {'[' * 19_000}\n---\n", TOO_DEEP),
        (
            f"---\nname: odd\ndescription: x\n---\n{'x' * 1_000_000}",
            TOO_LARGE.format(most=MOST_BYTES),
        ),
        (f"---\n{'#' * 30_000}\n---\n", LONG_FRONT_MATTER),
        (
            "---\nname: odd\ndescription: \x07\n---\n",
            BAD_YAML.format(problem="", place=""),
        ),
    ],
)
def test_what_is_no_skill_is_left_aside_with_one_clear_sentence(
    text: str, because: str, home: Path, project: Path
) -> None:
    put(home / ".claude/skills/odd/SKILL.md", text)
    skill(home / ".claude/skills", "good")
    assert [*found(project).skills] == ["good"]
    [fault] = found(project).left_aside
    assert (
        fault.startswith("~/.claude/skills/odd/SKILL.md was ignored: ")
        and because in fault
    )
    assert len(fault) < 250 and fault.isprintable()


def test_pipes_folders_and_loops_in_place_of_a_skill_hold_nobody_up(
    home: Path, project: Path
) -> None:
    for name in ("pipe", "folder", "loop"):
        (home / ".claude/skills" / name).mkdir(parents=True)
    os.mkfifo(home / ".claude/skills/pipe/SKILL.md")
    (home / ".claude/skills/folder/SKILL.md").mkdir()
    (home / ".claude/skills/loop/SKILL.md").symlink_to("SKILL.md")
    assert [fault.split("/")[3] for fault in found(project).left_aside] == [
        "folder",
        "loop",
        "pipe",
    ]


def test_a_link_out_of_the_project_is_never_read_nor_asked_about(
    project: Path, tmp_path: Path
) -> None:
    skill(tmp_path / "elsewhere", "secret", "My key.")
    (project / ".claude").mkdir()
    (project / ".claude/skills").symlink_to(tmp_path / "elsewhere")
    assert not folder_files(project)
    assert LEADS_OUT in why(project)
    assert not found(project).skills


async def test_names_that_no_text_may_hold_are_left_aside_in_words_that_one_can_read(
    project: Path, home: Path
) -> None:
    bad = os.fsdecode(b"\xff[31m\x1b]0;x\x07")
    for folder in (home / ".claude/skills", project / ".claude/skills"):
        skill(folder, "odd").parent.rename(folder / bad)
    put(home / f".claude/commands/{bad}.md", "Do it.")
    skill(home / bad / "skills", "good")
    (home / ".agents").symlink_to(home / bad)
    faults = found(project).left_aside
    assert [*found(project).by_name] == ["good"] and len(faults) == 3
    assert all(fault.isprintable() and UNTYPABLE in fault for fault in faults)
    agent, watch = agent_in(project, PlayedLLM())
    await agent.prompt("/good go")
    assert names_loaded(agent) == ["good"] and all(
        text.isprintable() for text in watch.notices
    )
    await agent.aclose()


# --- what the model is told -------------------------------------------------------------------------------


def some_skills(count: int, letters: int = 300) -> list[Extension]:
    return [Extension("skills", f"skill-{n}", "d" * letters) for n in range(count)]


def test_the_list_stays_within_its_tokens_by_shortening_descriptions_and_keeps_the_names() -> (
    None
):
    assert listing([], 32_000) == ""
    assert listing(some_skills(2), 32_000).count("d" * 300) == 2
    short = listing(some_skills(40), 32_000)
    assert "skill-39: d" in short and "d" * 70 not in short
    assert "\n- skill-199" in listing(
        some_skills(500), 1
    ) and "skill-200" not in listing(some_skills(500), 1)


async def test_the_list_opens_the_session_and_stays_as_it_was_while_new_skills_are_a_notice(
    project: Path, home: Path
) -> None:
    skill(home / ".agents/skills", "pdf", "Reads PDFs.")
    skill(
        home / ".agents/skills",
        "mine",
        "Only for me.",
        more="disable-model-invocation: true\n",
    )
    llm = PlayedLLM()
    agent, _ = agent_in(project, llm)
    await agent.prompt("one")
    skill(home / ".agents/skills", "word", "Reads letters.")
    await agent.prompt("two")
    await agent.prompt("three")
    first, second, third = llm.requests
    assert (
        "- pdf: Reads PDFs." in first.messages[0].text
        and "mine" not in first.messages[0].text
    )
    assert first.messages[0] == third.messages[0]
    assert second.messages == third.messages[: len(second.messages)], (
        "what a cache keeps stays"
    )
    told = [m.text for m in third.messages if "word: Reads letters." in m.text]
    assert len(told) == 1 and "pdf" not in told[0]
    assert [tool.name for tool in first.tools] == [tool.name for tool in third.tools]
    await agent.aclose()


async def test_without_skills_the_model_hears_nothing_of_them(project: Path) -> None:
    llm = PlayedLLM()
    agent, _ = agent_in(project, llm)
    await agent.prompt("one")
    assert "Skills," not in llm.requests[0].messages[0].text
    assert "skill" not in [tool.name for tool in llm.requests[0].tools]
    await agent.aclose()


# --- loading ----------------------------------------------------------------------------------------------


def names_loaded(agent: Agent) -> list[str]:
    return [name for name, _ in loaded(agent.session.projection)]


async def test_the_model_loads_a_skill_whose_instructions_follow_the_results_of_its_step(
    project: Path, home: Path
) -> None:
    usual_home(home)
    put(project / "a.txt", "text")
    step = tool_reply(
        ("skill", {"name": "pdf-forms"}),
        ("read", {"path": "a.txt"}),
        ("skill", {"name": "pdf-forms"}),
    )
    llm = PlayedLLM(step, "done", tool_reply(("skill", {"name": "pdf-forms"})), "done")
    agent, _ = agent_in(project, llm)
    await agent.prompt("fill in the form")
    sent = llm.requests[1].messages
    assert [message.type for message in sent[-4:]] == ["tool_result"] * 3 + [
        "developer"
    ]
    assert (
        "Run scripts/fill.py." in sent[-1].text
        and str(home / ".claude/skills/pdf-forms") in sent[-1].text
    )
    await agent.prompt("again")
    text = llm.requests[3].messages[-1].text
    assert text == ALREADY_LOADED.format(name="pdf-forms")
    assert names_loaded(agent) == ["pdf-forms"]
    await agent.aclose()


async def test_a_skill_that_is_not_there_or_only_for_the_user_is_refused_to_the_model(
    project: Path, home: Path
) -> None:
    skill(home / ".agents/skills", "pdf")
    skill(home / ".agents/skills", "mine", more="disable-model-invocation: true\n")
    llm = PlayedLLM(
        tool_reply(("skill", {"name": "mine"}), ("skill", {"name": "../x"})), "done"
    )
    agent, _ = agent_in(project, llm)
    await agent.prompt("go")
    said = [message.text for message in llm.requests[1].messages[-2:]]
    assert said == [
        NO_SKILL.format(name="mine", available=AVAILABLE.format(names="pdf")),
        NO_SKILL.format(name="../x", available=AVAILABLE.format(names="pdf")),
    ]
    await agent.executor.wait_for(
        agent.executor.submit(operations.LoadSkill(asked="mine"))
    )
    assert names_loaded(agent) == ["mine"]
    await agent.aclose()


async def test_the_files_of_a_skill_are_read_without_a_question_and_those_beside_it_are_not(
    project: Path, home: Path
) -> None:
    usual_home(home)
    other = put(home / ".claude/skills/notes.txt", "private")
    (home / ".claude/skills/pdf-forms/out.txt").symlink_to(other)
    inside = str(home / ".claude/skills/pdf-forms/scripts/fill.py")
    for mode in ("ask", "read-only"):
        llm = PlayedLLM(
            tool_reply(("read", {"path": inside})),
            tool_reply(("read", {"path": str(other)})),
        )
        agent, watch = agent_in(project, llm, approvals=mode)
        task = agent.executor.submit(operations.RunAgent(parts=text_parts("look")))
        asked = await watch.first(ApprovalRequested)
        assert asked.title == str(other) and not asked.inside
        assert "print('filled')" in llm.requests[1].messages[-1].text
        agent.executor.submit(operations.Interrupt())
        await agent.executor.wait_for(task)
        context = agent.state.tools.context("x", 100)
        read = next(tool for tool in agent.state.tools.all if tool.spec.name == "read")
        assert not read.inside(
            {"path": str(home / ".claude/skills/pdf-forms/out.txt")}, context
        )
        await agent.aclose()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("mode", ["ask", "sandboxed", "read-only"])
@pytest.mark.parametrize("place", [".claude/skills", ".agents/skills", "own", "linked"])
async def test_the_script_of_a_skill_runs_by_bash_where_the_skill_says_it_lies(
    project: Path, home: Path, mode: str, place: str
) -> None:
    """Also where Foldline's own folder, which the sandbox hides, holds the skill, or a link to it."""
    require_engine("bubblewrap")
    own = Path(os.environ["FOLDLINE_HOME"]) / "skills"
    folder = (
        own
        if place == "own"
        else home / (place if place != "linked" else "dotfiles/skills")
    )
    skill(folder, "count", body="Run `python3 scripts/count.py`.")
    put(
        folder / "count/scripts/count.py",
        "import words\nprint('counted', len(words.ALL))\n",
    )
    put(folder / "count/scripts/words.py", "ALL = ['one', 'two']\n")
    if place == "linked":
        own.symlink_to(folder)
    llm = PlayedLLM("loaded")
    agent, watch = agent_in(project, llm, approvals=mode)
    await agent.prompt("/count")
    told = next(
        entry.text
        for entry in agent.session.entries
        if isinstance(entry, DeveloperMessage)
    )
    path = told.partition("start in ")[2].partition(": ")[0]
    llm.script.append(
        tool_reply(("bash", {"command": f"python3 {path}/scripts/count.py"}))
    )
    task = agent.executor.submit(operations.RunAgent(parts=text_parts("count")))
    if mode == "ask":
        asked = await watch.first(ApprovalRequested)
        agent.executor.submit(operations.Approve(call_id=asked.call_id, answer="once"))
    await agent.executor.wait_for(task)
    assert llm.requests[-1].messages[-1].text.startswith("counted 2")
    assert len(watch.of(ApprovalRequested)) == (mode == "ask")
    await agent.aclose()


async def test_a_loaded_skill_outlives_compactions_and_clear_and_weighs_as_its_own_kind(
    project: Path, home: Path
) -> None:
    usual_home(home)
    llm = PlayedLLM(*[f"answer {n} " + "word " * 600 for n in range(8)], window=16_384)
    agent, _ = agent_in(project, llm)
    await agent.prompt("/release-notes for 2.0")
    for n in range(7):
        await agent.prompt(f"go on {n}")
    await agent.compact()
    assert any(isinstance(entry, Compaction) for entry in agent.session.entries)
    assert names_loaded(agent) == ["release-notes"]
    [share] = [
        s
        for s in request_breakdown(
            agent.state.projection, agent.state.tools.schemas
        ).shares
        if s.category == "skills"
    ]
    assert share.items == 1 and share.tokens > 0
    assert not [*broken(agent.state.projection)]
    await agent.executor.wait_for(agent.executor.submit(operations.ClearView()))
    assert names_loaded(agent) == ["release-notes"]
    path = agent.session.path
    await agent.aclose()
    assert path is not None
    again = Session.open(path)
    assert [
        item.outline.origin
        for item in again.projection.view
        if item.outline.origin == "skill"
    ] == ["skill"]
    again.close()


async def test_unloading_is_one_entry_that_can_be_taken_back(
    project: Path, home: Path
) -> None:
    usual_home(home)
    agent, watch = agent_in(project, PlayedLLM())
    await agent.executor.wait_for(
        agent.executor.submit(operations.LoadSkill(asked="pdf-forms"))
    )
    await agent.executor.wait_for(
        agent.executor.submit(operations.LoadSkill(asked="pdf-forms"))
    )
    assert ["already" in text for text in watch.notices] == [False, True]
    [(name, item)] = loaded(agent.session.projection)
    before = agent.session.next_index
    [argument, note] = next(skill_rows(agent.state.tools))
    assert argument == "unload pdf-forms" and note.startswith("loaded, ")
    await agent.executor.wait_for(
        agent.executor.submit(operations.LoadSkill(asked="unload pdf-forms"))
    )
    assert names_loaded(agent) == [] and agent.session.next_index == before + 1
    again = agent.executor.submit(operations.LoadSkill(asked="unload pdf-forms"))
    assert (
        await agent.executor.wait_for(again)
    ).error == "The skill 'pdf-forms' is not loaded."
    restore = operations.EditView(target=item.index, action="restore")
    await agent.executor.wait_for(agent.executor.submit(restore))
    assert names_loaded(agent) == [name]
    assert agent.state.projection.is_pinned(item.index), (
        "brought back, it is kept as it was"
    )
    await agent.aclose()


async def test_a_skill_that_changed_takes_the_place_of_what_it_was(
    project: Path, home: Path
) -> None:
    path = skill(home / ".agents/skills", "pdf", body="Old ways.")
    llm = PlayedLLM()
    agent, _ = agent_in(project, llm)
    await agent.prompt("/pdf one")
    path.write_text(path.read_text().replace("Old", "New"))
    await agent.prompt("/pdf two")
    said = "\n".join(message.text for message in llm.requests[1].messages)
    assert "New ways." in said and "Old ways." not in said
    assert llm.requests[0].messages[-1].text == "/pdf one"
    await agent.aclose()


async def test_a_skill_too_large_for_the_window_is_refused_before_anything_is_sent(
    project: Path, home: Path
) -> None:
    skill(home / ".agents/skills", "vast", body="word " * 12_000)
    llm = PlayedLLM(window=16_384)
    agent, _ = agent_in(project, llm)
    with pytest.raises(
        FoldlineError, match=r"The skill vast takes about [\d,]+ tokens"
    ):
        await agent.prompt("/vast")
    assert not llm.requests and not agent.session.entries
    await agent.aclose()


async def test_what_is_left_aside_is_said_once_and_what_nobody_agreed_to_is_named(
    project: Path, home: Path
) -> None:
    usual_home(home)
    usual_project_in = project / "shop"
    usual_project(usual_project_in)
    put(home / ".claude/skills/odd/SKILL.md", "no head")
    agent, watch = agent_in(usual_project_in, PlayedLLM())
    with pytest.raises(
        FoldlineError, match="/deploy was ignored, because you have not agreed to it"
    ):
        await agent.prompt("/deploy now")
    await agent.prompt("one")
    await agent.prompt("two")
    said = [text for text in watch.notices if "odd/SKILL.md" in text]
    assert len(said) == 1 and NO_FRONT_MATTER in said[0]
    assert sum(".claude/skills/deploy/SKILL.md" in text for text in watch.notices) == 1
    await agent.aclose()
