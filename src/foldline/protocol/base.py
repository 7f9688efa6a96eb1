"""What every record of the protocol has in common."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable value that travels as JSON. Fields a newer version wrote are kept, not dropped."""

    model_config = ConfigDict(frozen=True, extra="allow")
