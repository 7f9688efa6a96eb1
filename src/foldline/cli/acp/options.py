"""What a client can set of a session: the mode of approvals, the model, how much it thinks."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, get_args

from acp import schema

from foldline.agent import Agent
from foldline.agent.agent import use_request_options
from foldline.agent.api_keys import key_of
from foldline.agent.model_choice import provider_in_force
from foldline.agent.settings_schema import KEYS, choices_of
from foldline.context.permissions import mode_words
from foldline.llm.catalog import list_models
from foldline.protocol import ApprovalMode, FoldlineError, operations

Options = list[Any]
"""Of `schema.SessionConfigOptionSelect`; the package's lists take booleans, too."""


def modes(agent: Agent) -> schema.SessionModeState:
    available = [
        schema.SessionMode(id=mode, name=mode.capitalize(), description=mode_words(mode).capitalize())
        for mode in get_args(ApprovalMode)
    ]
    return schema.SessionModeState(current_mode_id=agent.state.policy.mode, available_modes=available)


def config_options(agent: Agent, models: Sequence[str]) -> Options:
    """All that can be set, as it is now; `models` are those that the provider lists."""
    model = agent.state.llm.info.id
    chosen = [_select("mode", "Permissions", agent.state.policy.mode, get_args(ApprovalMode))]
    if model:
        chosen.append(_select("model", "Model", model, dict.fromkeys((model, *models))))
    if agent.settings is not None:
        efforts = choices_of(KEYS["effort"])
        chosen.append(_select("thought_level", "Effort", agent.settings.effort, efforts))
    return chosen


def asked_for(agent: Agent, option: str, value: object) -> operations.Operation | None:
    """What sets an option for this session; None where it is set by now.

    Raises:
        FoldlineError: there is no such option or value.
    """
    match option, value:
        case "mode", str() if value in get_args(ApprovalMode):
            return operations.SwitchApprovals(mode=value)
        case "model", str() if value:
            return operations.SwitchModel(model=value)
        case "thought_level", str() if value in choices_of(KEYS["effort"]) and agent.settings is not None:
            agent.settings = agent.settings.model_copy(update={"effort": value})
            use_request_options(agent.state, agent.settings)
            return None
        case _:
            raise FoldlineError(f"There is no {option} {value!r}.")


async def listed_models(agent: Agent) -> tuple[str, ...]:
    """The models of the provider that is asked; none where it cannot say."""
    if agent.settings is None or agent.state.llm.info.provider in ("", None):
        return ()
    with suppress(FoldlineError):
        provider = provider_in_force(agent.settings, os.environ)
        if provider is not None:
            models = await list_models(provider, key_of(provider, os.environ).value)
            return tuple(model.id for model in models)
    return ()


def _select(category: str, name: str, value: str, choices: Iterable[str]) -> schema.SessionConfigOptionSelect:
    """Names of models are shown as they are; those that are ours, as words."""
    return schema.SessionConfigOptionSelect(
        id=category,
        name=name,
        category=category,
        type="select",
        current_value=value,
        options=[
            schema.SessionConfigSelectOption(
                value=each, name=each if category == "model" else each.capitalize()
            )
            for each in choices
        ],
    )
