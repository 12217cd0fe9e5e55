"""JSON routes of the inbox."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter

from services.api.http.problem_details import problems
from services.api.resources.inbox import model

router: Final = APIRouter(prefix="/inbox", tags=["inbox"])

router.get("", name="list_all")(model.list_inbox_items)
router.post("/read")(model.mark_all_read)
router.get("/{item_id}", name="show")(model.get_inbox_item)
router.post("/{item_id}/read")(model.mark_read)
router.post("/{item_id}/unread")(model.mark_unread)
router.post("/{item_id}/accept", responses=problems(HTTPStatus.CONFLICT))(model.accept)
router.post("/{item_id}/dismiss")(model.dismiss)
router.post("/{item_id}/reopen")(model.reopen)
router.post("/{item_id}/snooze")(model.snooze)
router.post("/{item_id}/feedback")(model.give_feedback)
