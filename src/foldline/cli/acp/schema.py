"""The part of the Agent Client Protocol that Foldline uses, as models.

Fields and methods have the protocol's names, in snake case instead of camel case. The models of the official
package are not used, because importing them takes half of a start.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from foldline.json_text import JsonObject

PROTOCOL_VERSION = 1

PermissionOptionKind = Literal[
    "allow_once", "allow_always", "reject_once", "reject_always"
]
PlanEntryStatus = Literal["pending", "in_progress", "completed"]
StopReason = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]
ToolKind = Literal["read", "edit", "search", "execute", "fetch", "other"]


class Model(BaseModel):
    """A JSON object. Unknown fields are ignored, and empty fields are not sent."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    def json_object(self) -> JsonObject:
        fields: JsonObject = self.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        return fields


# --- content --------------------------------------------------------------------------------------------


class TextContentBlock(Model):
    type: Literal["text"] = "text"
    text: str


class ImageContentBlock(Model):
    type: Literal["image"] = "image"
    data: str
    mime_type: str
    uri: str | None = None


class AudioContentBlock(Model):
    type: Literal["audio"] = "audio"


class ResourceContentBlock(Model):
    """A link to a file or another resource."""

    type: Literal["resource_link"] = "resource_link"
    uri: str


class TextResourceContents(Model):
    uri: str
    text: str


class BlobResourceContents(Model):
    uri: str
    blob: str


class EmbeddedResourceContentBlock(Model):
    type: Literal["resource"] = "resource"
    resource: TextResourceContents | BlobResourceContents


ContentBlock = Annotated[
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock,
    Field(discriminator="type"),
]


# --- the client's requests ------------------------------------------------------------------------------


class ElicitationCapabilities(Model):
    form: JsonObject | None = None


class ClientCapabilities(Model):
    elicitation: ElicitationCapabilities | None = None


class InitializeRequest(Model):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class AuthenticateRequest(Model):
    method_id: str


class NamedValue(Model):
    """An environment variable or an HTTP header."""

    name: str
    value: str


class McpServerStdio(Model):
    name: str
    command: str
    args: list[str]
    env: list[NamedValue]


class HttpMcpServer(Model):
    type: Literal["http"]
    name: str
    url: str
    headers: list[NamedValue]


class OtherMcpServer(Model):
    """A tool server that Foldline cannot use."""

    type: Literal["sse", "acp"]
    name: str


McpServer = HttpMcpServer | OtherMcpServer | McpServerStdio


class NewSessionRequest(Model):
    cwd: str
    mcp_servers: list[McpServer] | None = None


class OpenSessionRequest(NewSessionRequest):
    """A request to load or to resume a session."""

    session_id: str


class SessionRequest(Model):
    """A request or notification about a session, without further parameters."""

    session_id: str


class ListSessionsRequest(Model):
    cwd: str | None = None
    cursor: str | None = None


class PromptRequest(SessionRequest):
    prompt: list[ContentBlock]


class SetSessionModeRequest(SessionRequest):
    mode_id: str


class SetSessionConfigOptionRequest(SessionRequest):
    config_id: str
    value: str | bool


# --- answers to the client ------------------------------------------------------------------------------


class Implementation(Model):
    name: str
    title: str
    version: str


class PromptCapabilities(Model):
    image: bool
    audio: bool
    embedded_context: bool


class McpCapabilities(Model):
    http: bool
    sse: bool


class AgentCapabilities(Model):
    load_session: bool
    prompt_capabilities: PromptCapabilities
    mcp_capabilities: McpCapabilities
    session_capabilities: dict[str, JsonObject]


class AuthMethodAgent(Model):
    id: str
    name: str
    description: str


class InitializeResponse(Model):
    protocol_version: int
    agent_info: Implementation
    agent_capabilities: AgentCapabilities
    auth_methods: list[AuthMethodAgent]


class EmptyResponse(Model):
    """The answer to a request that has no result."""


class SessionMode(Model):
    id: str
    name: str
    description: str


class SessionModeState(Model):
    current_mode_id: str
    available_modes: list[SessionMode]


class SessionConfigSelectOption(Model):
    value: str
    name: str


class SessionConfigOptionSelect(Model):
    id: str
    name: str
    category: str
    type: Literal["select"] = "select"
    current_value: str
    options: list[SessionConfigSelectOption]


class OpenSessionResponse(Model):
    """The answer to a request that opens a session. Only a new session's has an id."""

    session_id: str | None = None
    modes: SessionModeState
    config_options: list[SessionConfigOptionSelect]


class SetSessionConfigOptionResponse(Model):
    config_options: list[SessionConfigOptionSelect]


class ListedSession(Model):
    session_id: str
    cwd: str
    title: str | None
    updated_at: str


class ListSessionsResponse(Model):
    sessions: list[ListedSession]
    next_cursor: str | None = None


class TokenUsage(Model):
    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int
    cached_read_tokens: int
    cached_write_tokens: int


class PromptResponse(Model):
    stop_reason: StopReason
    usage: TokenUsage | None = None


# --- updates --------------------------------------------------------------------------------------------


class ContentToolCallContent(Model):
    type: Literal["content"] = "content"
    content: ContentBlock


class FileEditToolCallContent(Model):
    type: Literal["diff"] = "diff"
    path: str
    new_text: str
    old_text: str


ToolCallContent = ContentToolCallContent | FileEditToolCallContent


class ToolCallLocation(Model):
    path: str
    line: int | None = None


class ToolCallUpdate(Model):
    """A tool call, or the fields of it that have changed."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: list[ToolCallContent] | None = None
    locations: list[ToolCallLocation] | None = None
    raw_input: Any = None


class ToolCallStart(ToolCallUpdate):
    session_update: Literal["tool_call"] = "tool_call"


class ToolCallProgress(ToolCallUpdate):
    session_update: Literal["tool_call_update"] = "tool_call_update"


class MessageChunk(Model):
    """A part of a message by the user or the agent, or of the agent's reasoning."""

    session_update: Literal[
        "user_message_chunk", "agent_message_chunk", "agent_thought_chunk"
    ]
    content: ContentBlock


class PlanEntry(Model):
    content: str
    priority: Literal["medium"] = "medium"
    status: PlanEntryStatus


class AgentPlanUpdate(Model):
    session_update: Literal["plan"] = "plan"
    entries: list[PlanEntry]


class UnstructuredCommandInput(Model):
    hint: str


class AvailableCommand(Model):
    name: str
    description: str
    input: UnstructuredCommandInput | None = None


class AvailableCommandsUpdate(Model):
    session_update: Literal["available_commands_update"] = "available_commands_update"
    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Model):
    session_update: Literal["current_mode_update"] = "current_mode_update"
    current_mode_id: str


class ConfigOptionUpdate(Model):
    session_update: Literal["config_option_update"] = "config_option_update"
    config_options: list[SessionConfigOptionSelect]


class SessionInfoUpdate(Model):
    session_update: Literal["session_info_update"] = "session_info_update"
    title: str
    updated_at: str


class CostAmount(Model):
    amount: float
    currency: str


class UsageUpdate(Model):
    session_update: Literal["usage_update"] = "usage_update"
    used: int
    size: int
    cost: CostAmount


SessionUpdate = (
    MessageChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
)


# --- questions to the user ------------------------------------------------------------------------------


class PermissionOption(Model):
    option_id: str
    name: str
    kind: PermissionOptionKind


class DeniedOutcome(Model):
    outcome: Literal["cancelled"]


class AllowedOutcome(Model):
    outcome: Literal["selected"]
    option_id: str


class RequestPermissionResponse(Model):
    outcome: AllowedOutcome | DeniedOutcome


class EnumOption(Model):
    const: str
    title: str


class ElicitationStringPropertySchema(Model):
    type: Literal["string"] = "string"
    title: str
    one_of: list[EnumOption] | None = None


class ElicitationSchema(Model):
    type: Literal["object"] = "object"
    properties: dict[str, ElicitationStringPropertySchema]


class ElicitationResponse(Model):
    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None
